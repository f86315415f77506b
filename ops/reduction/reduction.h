// Reductions over any axes; an empty list means all of them. Sums of f32 accumulate in f32 within a tile and
// in f64 across tiles, so the error of a sum stays below about 2e-7 sum |x| for any number of elements.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// All throw kOutOfRange and kInvalidArgument for bad axes, and kDtypeMismatch for bool. The result has the
/// dtype of x; integers wrap; sum and prod throw kDtypeMismatch for u8. The gradient of max and min is
/// divided equally among tied elements. Over no elements, max is -inf and min is inf, or the limits of an
/// integer dtype. The third gradient of prod is correct only if no element is 0.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// Mean, for floating dtypes only (others throw kDtypeMismatch). The mean of no elements is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// The sum of squared deviations from the mean, divided by n - correction (PyTorch's var has correction 1).
/// Floating dtypes. Throws kDtypeMismatch otherwise, kInvalidArgument for a negative correction, or for a
/// positive one that is >= n.
Tensor variance(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, int64_t correction = 0);
/// The square root of `variance`; throws the same errors. If all elements are equal, the gradient is 0.
Tensor standard_deviation(const Tensor& x, const Axes& axes = {}, bool keep_dims = false,
                          int64_t correction = 0);
/// The vector norm (sum |x|^p)^(1/p) over `axes`, max |x| for p = infinity. Elements are first divided by the
/// largest magnitude, so that no power overflows or underflows. Floating dtypes; 16-bit ones are computed in
/// f32. If the norm is 0, the gradient is 0. Throws kDtypeMismatch otherwise, kInvalidArgument unless p >= 1.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keep_dims = false);
/// bool: whether any element, or all elements, are nonzero. NaN counts as nonzero. Any dtype, including bool;
/// no gradient. Over no elements, `any` is false and `all` is true.
Tensor any(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// i64: the number of nonzero elements. Any dtype; no gradient.
Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

}  // namespace isochron
