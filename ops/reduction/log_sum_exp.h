// The logarithm of a sum of exponentials.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// log sum e^x over `axes` (PyTorch's logsumexp); an empty list means all axes. The largest element is
/// subtracted first, so that nothing overflows. If all elements are -inf, the result is -inf and the gradient
/// is 0. Floating dtypes; 16-bit ones are computed in f32. The relative error of the sum is that of softmax.
/// Throws kOutOfRange for an axis, kInvalidArgument for a repeated axis, kShapeMismatch if the axes contain
/// no element.
Tensor log_sum_exp(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

}  // namespace isochron
