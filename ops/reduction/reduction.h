// Reductions over any axes; an empty list means all of them. Sums of f32 accumulate in f32 within a tile and
// in f64 across tiles, so the error of a sum stays below about 2e-7 sum |x| for any number of elements.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// All throw kOutOfRange and kInvalidArgument for bad axes, and kDtypeMismatch for bool. The result has the
/// dtype of `x`, in which integers wrap; sum and prod throw kDtypeMismatch for u8. The gradient of max and
/// min is divided equally among tied elements. Without any elements, max is -inf and min is inf, or the
/// limits of an integer dtype. The third gradient of prod is correct only if no element is 0.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// Of floating dtypes, else throws kDtypeMismatch. The mean of no elements is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// Mean of squared deviations, divided by n - correction (PyTorch's var has correction 1). Floating dtypes.
/// Throws kDtypeMismatch otherwise, kInvalidArgument for a negative correction, or unless n > correction
/// (where that isn't 0).
Tensor variance(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, int64_t correction = 0);
/// The square root of `variance`, with its errors. The gradient where all elements are equal is 0.
Tensor standard_deviation(const Tensor& x, const Axes& axes = {}, bool keep_dims = false,
                          int64_t correction = 0);
/// The vector norm (sum |x|^p)^(1/p) over `axes`, max |x| for p = infinity. Elements are divided by the
/// largest of them first, so that no power overflows or vanishes. Floating dtypes; 16-bit ones are computed
/// in f32. The gradient where the norm is 0 is 0. Throws kDtypeMismatch otherwise, kInvalidArgument unless p
/// >= 1.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keep_dims = false);
/// Whether any element, or each, isn't 0, as bool; NaN isn't 0. Of every dtype, bool included, without
/// gradient. Of no elements `any` is false and `all` is true.
Tensor any(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// How many elements aren't 0, as i64. Of every dtype, without gradient.
Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

}  // namespace isochron
