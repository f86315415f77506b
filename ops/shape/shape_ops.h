// Ops that move elements without computing on them.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The same elements in row-major order under another shape; one extent may be -1 and is inferred. Costs
/// nothing. Throws kShapeMismatch.
Tensor reshape(const Tensor& x, const Dims& shape);
/// Axis i of the result is axis permutation[i] of x; an empty permutation reverses the axes. Throws
/// kInvalidArgument.
Tensor transpose(const Tensor& x, const Dims& permutation = {});
/// Repeats along axes of extent 1 (and new leading ones). Throws kShapeMismatch.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace isochron
