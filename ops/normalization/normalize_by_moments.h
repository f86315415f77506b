// A row of batch normalization: the part of it that comes after the moments are known, wherever they are
// from. Part of register_normalization (ops/normalization/normalization.cc).
#pragma once

#include "isochron/graph/ir/op.h"
#include "isochron/ops/normalization/normalization.h"

namespace isochron::ops {

/// What normalize_channels computes, for moments that depend on x themselves: the gradients of moments, gamma
/// and beta are taken in one pass over x and the gradient of y, by group_norm_gradient's kernel. x: (..., C)
/// of f32 or f64; the others (C) of its dtype, gamma and beta also undefined. Throws kShapeMismatch,
/// kDtypeMismatch.
Tensor normalize_by_moments(const Tensor& x, const Moments& moments, const Tensor& gamma, const Tensor& beta,
                            double epsilon);
void register_normalize_by_moments(graph::Registry& registry);

}  // namespace isochron::ops
