// Reductions over any axes; an empty list means all of them. f32 sums accumulate in vector lanes a tile at a
// time and in f64 between tiles: the error of a sum of n numbers stays below about 2e-7 sum |x| for any n.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Throw kOutOfRange, kInvalidArgument for bad axes. The gradient of max and min goes equally to all that
/// tie.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// The mean of no elements is NaN.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor max(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
/// Mean of squared deviations, divided by n - correction.
Tensor variance(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, int64_t correction = 0);

}  // namespace isochron
