#include "isochron/ops/random/draw_key.h"

namespace isochron::ops {

DrawKey draw_key(int64_t draw, int64_t seed, int64_t step, std::span<const int64_t> loops) {
  DrawKey key{static_cast<uint64_t>(seed), 0, static_cast<uint32_t>(step), static_cast<uint32_t>(draw)};
  // For a single loop this is the iteration; for nested loops the golden ratio spreads the iterations.
  for (const int64_t index : loops) key.loop = key.loop * 0x9E3779B9u + static_cast<uint32_t>(index);
  return key;
}

}  // namespace isochron::ops
