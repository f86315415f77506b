// Random kernels.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/random/draw_key.h"

namespace isochron::ops {

/// words[4 i .. 4 i + 3] = block number first + i, for i < count.
void philox_blocks(const DrawKey& key, uint32_t first, int64_t count, uint32_t* words);

enum class Distribution { kUniform, kNormal, kBernoulli };

/// Inputs: the state {seed, step} in i64, then the indices of enclosing loops, outermost first. Attributes:
/// draw (i64), a and b (f64): low and high, mean and standard deviation, or probability and 0.
std::unique_ptr<graph::Kernel> prepare_random(Distribution distribution, const graph::KernelRequest& request);

}  // namespace isochron::ops
