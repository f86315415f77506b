// Cumulative ops and the linear recurrence that their gradients use. The result has the input's shape;
// element k is the result for elements 0 to k along `axis`. `exclusive` leaves out element k itself (the
// first result is then that of an empty list: 0 for sums, 1 for products); `reverse` starts at the end; both
// as in TensorFlow. Results are the same for any number of threads. All throw kOutOfRange for the axis,
// kDtypeMismatch.
#pragma once

#include <utility>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

struct CumulativeOptions {
  bool exclusive = false;
  bool reverse = false;
};

/// Sums and products of any dtype but bool; the result has the same dtype. Integers wrap; floats are
/// accumulated in f64 and rounded once per element. The product's gradient is exact also where elements are 0
/// (nothing is divided).
Tensor cumulative_sum(const Tensor& x, int64_t axis, CumulativeOptions options = {});
Tensor cumulative_product(const Tensor& x, int64_t axis, CumulativeOptions options = {});

/// log of the cumulative sum of e^x, without overflow: -inf where nothing was summed. Floating dtypes.
Tensor log_cumulative_sum_exp(const Tensor& x, int64_t axis, CumulativeOptions options = {});

/// The largest or smallest element so far, and its position (i64) along `axis`. Of equal elements the last
/// one counts; NaN counts as both largest and smallest, as in PyTorch. The gradient goes to that element. Any
/// number dtype.
std::pair<Tensor, Tensor> cumulative_max(const Tensor& x, int64_t axis, bool reverse = false);
std::pair<Tensor, Tensor> cumulative_min(const Tensor& x, int64_t axis, bool reverse = false);

/// y_k = factors_k y_{k-1} + terms_k along `axis`, from y_{-1} = 0: discounted sums, moving averages,
/// diagonal state-space layers. With `reverse` y_k = factors_k y_{k+1} + terms_k. Floating dtypes,
/// accumulated in f64. factors and terms have one shape. Throws kShapeMismatch.
Tensor linear_recurrence(const Tensor& factors, const Tensor& terms, int64_t axis, bool reverse = false);

}  // namespace isochron
