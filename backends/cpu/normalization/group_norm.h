// Kernels of normalization over positions: groups of channels, single channels, batches. There are two passes
// over each sample, one for its sums and one for its results. The second pass runs backward from the end,
// which the first pass has left in cache. A sample is divided into parts that depend only on shapes, and the
// sums of its blocks of rows are added in f64. So sums don't depend on the number of threads.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

// x, y and their gradients may all be stored in the same 16-bit dtype; the other tensors are then f32. For
// other combinations of dtypes these functions return null.

/// Input x (..., C); outputs mean (C), variance (C).
std::unique_ptr<graph::Kernel> prepare_channel_moments(const graph::KernelRequest& request);
/// Inputs x [, gamma (C) [, beta (C)]]; outputs y, mean, variance (N, G), or (G) over the batch.
std::unique_ptr<graph::Kernel> prepare_group_norm(const graph::KernelRequest& request);
/// Inputs x, mean, variance, dy [, gamma]; outputs dx [, dgamma, dbeta].
std::unique_ptr<graph::Kernel> prepare_group_norm_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
