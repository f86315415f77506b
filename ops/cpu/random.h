// Random kernels, and the numbers they draw from.
#pragma once

#include <memory>

#include "isochron/core/rng.h"
#include "isochron/graph/op.h"

namespace isochron::ops {

/// Everything that tells one draw from another. Philox's key is the seed; its counter, from the low word up,
/// is {block, loop, step, draw}: a block is four words for four f32 elements or two f64 ones.
struct DrawKey {
  uint64_t seed = 0;
  uint32_t loop = 0;
  uint32_t step = 0;
  uint32_t draw = 0;
  PhiloxBlock block(uint32_t index) const {
    return philox4x32({index, loop, step, draw},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
};

/// words[4 i .. 4 i + 3] = block first + i, for i < count.
void philox_blocks(const DrawKey& key, uint32_t first, int64_t count, uint32_t* words);

enum class Distribution { kUniform, kNormal, kBernoulli };

/// Inputs: the state {seed, step} in i64, then the indices of enclosing loops, outermost first. Attributes:
/// draw (i64), a and b (f64): low and high, mean and deviation, or probability and 0.
std::unique_ptr<graph::Kernel> prepare_random(Distribution distribution, const graph::KernelRequest& request);
DrawKey draw_key(int64_t draw, int64_t seed, int64_t step, std::span<const int64_t> loops);

}  // namespace isochron::ops
