// Kernels of normalization over positions: groups of channels, single channels, batches. Two passes over each
// sample, for its sums and for its results, the second from the end, where the first has left it in cache.
// Sums are taken of parts that depend on shapes alone, in f64 between blocks of rows, and so don't depend on
// the number of threads.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

// x, y and their gradients may be stored in 16 bits, all in one dtype (else null), the others are f32 then.

/// x (..., C); mean (C), variance (C).
std::unique_ptr<graph::Kernel> prepare_channel_moments(const graph::KernelRequest& request);
/// x [, gamma (C) [, beta (C)]]; y, mean, variance (N, G), or (G) over the batch.
std::unique_ptr<graph::Kernel> prepare_group_norm(const graph::KernelRequest& request);
/// x, mean, variance, dy [, gamma]; dx [, dgamma, dbeta].
std::unique_ptr<graph::Kernel> prepare_group_norm_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
