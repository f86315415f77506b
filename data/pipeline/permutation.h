// A random order of 0..n-1 without a table: a Feistel network over the smallest power of two >= n, applied
// repeatedly until the result is below n (cycle walking; Black and Rogaway: "Ciphers with Arbitrary Finite
// Domains", CT-RSA 2002). Each place of the order is computed independently.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "isochron/core/base/rng.h"

namespace isochron::data {

class Permutation {
 public:
  Permutation() = default;
  /// A permutation of 0..elems-1, selected by (seed, stream).
  Permutation(uint64_t elems, uint64_t seed, uint64_t stream) : elems_(elems) {
    const int bits = elems <= 2 ? 2 : std::bit_width(elems - 1);
    low_bits_ = bits / 2;
    high_bits_ = bits - low_bits_;
    Rng rng(seed, stream);
    for (uint64_t& key : round_keys_) key = rng.next_u64();
  }

  /// The element at `place`, which must lie in [0, elems).
  uint64_t operator()(uint64_t place) const {
    do {
      place = encrypt(place);
    } while (place >= elems_);
    return place;
  }

 private:
  static constexpr int kRounds = 8;  // even, so that both halves end at their own width

  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 32)) * 0xD6E8FEB86659FD93u;
    return (value ^ (value >> 32)) * 0xD6E8FEB86659FD93u >> 16;
  }

  uint64_t encrypt(uint64_t value) const {
    int right_bits = low_bits_, left_bits = high_bits_;
    uint64_t right = value & ((uint64_t{1} << right_bits) - 1), left = value >> right_bits;
    for (uint64_t key : round_keys_) {
      const uint64_t next = (left ^ mix(right + key)) & ((uint64_t{1} << left_bits) - 1);
      left = right;
      right = next;
      std::swap(left_bits, right_bits);
    }
    return left << right_bits | right;
  }

  uint64_t elems_ = 1;
  int low_bits_ = 1, high_bits_ = 1;
  std::array<uint64_t, kRounds> round_keys_{};
};

}  // namespace isochron::data
