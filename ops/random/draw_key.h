// The key and counter of the random number generator, Philox.
#pragma once

#include <span>

#include "isochron/core/base/rng.h"

namespace isochron::ops {

/// Identifies a draw. Philox's key is the seed; its counter, from the low word up, is {block, loop, step,
/// draw}. A block is four words, for four f32 elements or two f64 elements.
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
/// The key of draw number `draw` of a trace, for a generator with state {seed, step}. `loops`: the current
/// iterations of the loops around the op, outermost first.
DrawKey draw_key(int64_t draw, int64_t seed, int64_t step, std::span<const int64_t> loops);

}  // namespace isochron::ops
