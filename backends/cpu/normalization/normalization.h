// Kernels of layer_norm; those over positions are in backends/cpu/normalization/group_norm.h.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

// x, y and their gradients may be stored in one 16-bit dtype, the same for all (else null); the other tensors
// are then f32.

/// x (..., D) [, gamma (D) [, beta (D)]]; y, mean (...), 1 / deviation (...).
std::unique_ptr<graph::Kernel> prepare_layer_norm(const graph::KernelRequest& request);
/// x, mean, 1 / deviation, dy [, gamma]; dx [, dgamma, dbeta].
std::unique_ptr<graph::Kernel> prepare_layer_norm_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
