// Kernels of normalization over positions: groups of channels, single channels, batches. There are two passes
// over each sample, one for its sums and one for its results. The second pass goes backward from the end,
// which the first has left in cache. Samples are summed in parts that depend only on shapes, and in f64
// between blocks of rows. So sums don't depend on the number of threads.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

// x, y and their gradients may be stored in one 16-bit dtype, the same for all (else null); the other tensors
// are then f32.

/// x (..., C); mean (C), variance (C).
std::unique_ptr<graph::Kernel> prepare_channel_moments(const graph::KernelRequest& request);
/// x [, gamma (C) [, beta (C)]]; y, mean, variance (N, G), or (G) over the batch.
std::unique_ptr<graph::Kernel> prepare_group_norm(const graph::KernelRequest& request);
/// x, mean, variance, dy [, gamma]; dx [, dgamma, dbeta].
std::unique_ptr<graph::Kernel> prepare_group_norm_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
