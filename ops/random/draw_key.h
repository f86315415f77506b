// The numbers that random ops draw from.
#pragma once

#include <span>

#include "isochron/core/base/rng.h"

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
/// Of op number `draw` of a trace in a generator's state, within loops at these iterations, outermost first.
DrawKey draw_key(int64_t draw, int64_t seed, int64_t step, std::span<const int64_t> loops);

}  // namespace isochron::ops
