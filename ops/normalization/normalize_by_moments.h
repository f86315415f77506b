// The registry row for the second part of batch normalization: normalizing by given moments, wherever they
// come from. It is part of register_normalization (ops/normalization/normalization.cc).
#pragma once

#include "isochron/graph/ir/op.h"
#include "isochron/ops/normalization/normalization.h"

namespace isochron::ops {

/// Computes the same as normalize_channels, for moments that themselves depend on x: the kernel of
/// group_norm_gradient computes the gradients of moments, gamma and beta in one pass over x and the gradient
/// of y. x: (..., C), f32 or f64; the others: (C), of x's dtype; gamma and beta may be undefined. Throws
/// kShapeMismatch, kDtypeMismatch.
Tensor normalize_by_moments(const Tensor& x, const Moments& moments, const Tensor& gamma, const Tensor& beta,
                            double epsilon);
void register_normalize_by_moments(graph::Registry& registry);

}  // namespace isochron::ops
