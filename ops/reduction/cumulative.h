// Cumulative ops and the linear recurrence that their gradients use. The result has the input's shape;
// element k is the result for elements 0 to k along `axis`. As in TensorFlow, `exclusive` leaves out element
// k itself (so the first result is 0 for sums and 1 for products), and `reverse` starts at the end. Results
// are the same for any number of threads. All throw kOutOfRange for the axis, kDtypeMismatch.
#pragma once

#include <utility>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

struct CumulativeOptions {
  bool exclusive = false;
  bool reverse = false;
};

/// Sums and products of any dtype but bool; the result has the same dtype. Integers wrap; floats are
/// accumulated in f64 and rounded once per element. The gradient of the product is also exact if elements are
/// 0 (it doesn't divide).
Tensor cumulative_sum(const Tensor& x, int64_t axis, CumulativeOptions options = {});
Tensor cumulative_product(const Tensor& x, int64_t axis, CumulativeOptions options = {});

/// log of the cumulative sum of e^x, without overflow; -inf for an empty sum. Floating dtypes.
Tensor log_cumulative_sum_exp(const Tensor& x, int64_t axis, CumulativeOptions options = {});

/// The largest or smallest element so far, and its position (i64) along `axis`. As in PyTorch, the position
/// is that of the last of equal elements, and NaN counts as both largest and smallest. The gradient goes to
/// the element at that position. Any number dtype.
std::pair<Tensor, Tensor> cumulative_max(const Tensor& x, int64_t axis, bool reverse = false);
std::pair<Tensor, Tensor> cumulative_min(const Tensor& x, int64_t axis, bool reverse = false);

/// y_k = factors_k y_{k-1} + terms_k along `axis`, from y_{-1} = 0: discounted sums, moving averages,
/// diagonal state-space layers. With `reverse` y_k = factors_k y_{k+1} + terms_k. Floating dtypes,
/// accumulated in f64. factors and terms have the same shape. Throws kShapeMismatch.
Tensor linear_recurrence(const Tensor& factors, const Tensor& terms, int64_t axis, bool reverse = false);

}  // namespace isochron
