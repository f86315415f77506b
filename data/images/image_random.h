// The random numbers of image_ops.h: Philox counters made of the key, so that no state is kept between
// elements.
#pragma once

#include <cstdint>

#include "isochron/core/base/rng.h"
#include "isochron/core/base/seed.h"
#include "isochron/data/images/image_ops.h"

namespace isochron::data {

class ImageRandom {
 public:
  /// Each function that draws has a number of its own.
  enum Function : uint32_t { kCrop, kResizedCrop, kFlip, kColorJitter };

  ImageRandom(const ImageKey& key, Function function)
      : key_(key), seed_(key.seed ? *key.seed : seed_in_branch()), function_(function) {}

  uint32_t next_u32() {
    if (drawn_ % 4 == 0) {
      block_ = philox4x32(
          {static_cast<uint32_t>(key_.element), static_cast<uint32_t>(key_.element >> 32),
           static_cast<uint32_t>(key_.epoch), key_.stage << 8 | function_ << 5 | (drawn_ / 4 & 31)},
          {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    }
    return block_[drawn_++ % 4];
  }
  /// [low, high).
  double uniform(double low, double high) {
    const uint32_t first = next_u32();
    return low + (high - low) * uniform_f64(first, next_u32());
  }
  /// [0, bound), bound in [1, 2^31]; uneven by at most 2^-33 of each value's share.
  int64_t below(int64_t bound) {
    const uint32_t high = next_u32();
    const unsigned __int128 bits = uint64_t{high} << 32 | next_u32();
    return static_cast<int64_t>(bits * static_cast<uint64_t>(bound) >> 64);
  }

 private:
  static uint64_t seed_in_branch() {
    const ElementDraws* draws = ElementDraws::current();  // null outside of a map
    return default_seed("images") ^ (draws == nullptr ? 0 : draws->branch());
  }

  ImageKey key_;
  uint64_t seed_;
  uint32_t function_;
  uint32_t drawn_ = 0;
  PhiloxBlock block_{};
};

}  // namespace isochron::data
