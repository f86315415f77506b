// Reductions over any axes; an empty list means all of them. f32 sums accumulate in vector lanes a tile at a
// time and in f64 between tiles: the error of a sum of n numbers stays below about 2e-7 sum |x| for any n.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Throw kOutOfRange, kInvalidArgument for bad axes, and kDtypeMismatch for bool. The result has the dtype of
/// `x`, in which integers wrap; of u8, sum and prod throw kDtypeMismatch. The gradient of max and min goes
/// equally to all that tie; of no elements they are -inf and inf, or an integer's limits. The third gradient
/// of prod is right where no element is 0.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// Of floating dtypes, else throws kDtypeMismatch. The mean of no elements is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// Mean of squared deviations, divided by n - correction.
Tensor variance(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, int64_t correction = 0);

}  // namespace isochron
