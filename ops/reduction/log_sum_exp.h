// The logarithm of a sum of exponentials.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// log sum e^x over `axes` (all where there are none), from the largest element on, so that nothing
/// overflows; PyTorch's logsumexp. Of -inf alone it is -inf, and its gradient 0. Floating dtypes, 16-bit ones
/// through f32. Relative error of the sum as softmax's. Throws kOutOfRange and kInvalidArgument for the axes,
/// kShapeMismatch where they hold no element.
Tensor log_sum_exp(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

}  // namespace isochron
