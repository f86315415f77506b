// Ops that move elements without computing on them.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The same elements in row-major order under another shape; one extent may be -1 and is inferred. Costs
/// nothing. Throws kShapeMismatch, and kInvalidArgument for more than one -1.
Tensor reshape(const Tensor& x, const Dims& shape);
/// Axis i of the result is axis permutation[i] of x, counted from the end if negative; an empty permutation
/// reverses the axes. Throws kOutOfRange for an axis, kInvalidArgument for a repeated or missing axis.
Tensor transpose(const Tensor& x, const Dims& permutation = {});
/// Repeats along axes of extent 1 (and new leading ones). Throws kShapeMismatch.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace isochron
