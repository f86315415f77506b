// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC'11). A number is a pure function of (key, counter), so any thread may draw any of them, and
// the whole state is 24 bytes that a checkpoint saves.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace isochron {

using PhiloxBlock = std::array<uint32_t, 4>;

/// Ten rounds of Philox4x32 over `counter` under `key`. Matches the Random123 known-answer vectors.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// [0, 1) from 24 random bits; every result is exact in f32.
constexpr float uniform_f32(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
/// [0, 1) from 53 random bits.
constexpr double uniform_f64(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

/// A sequential stream over Philox for host-side use (shuffles, initial seeds). Copying it copies the state.
class Rng {
 public:
  struct State {
    uint64_t seed = 0;
    uint64_t stream = 0;
    uint64_t position = 0;  // 32-bit words drawn
    friend bool operator==(const State&, const State&) = default;
  };
  explicit Rng(uint64_t seed = 0, uint64_t stream = 0) : state_{seed, stream, 0} {}
  explicit Rng(const State& state) : state_(state) {}
  const State& state() const { return state_; }

  uint32_t next_u32() {
    const uint64_t block = state_.position / 4;
    if (block != cached_block_) {
      cache_ = philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                           static_cast<uint32_t>(state_.stream), static_cast<uint32_t>(state_.stream >> 32)},
                          {static_cast<uint32_t>(state_.seed), static_cast<uint32_t>(state_.seed >> 32)});
      cached_block_ = block;
    }
    return cache_[state_.position++ % 4];
  }
  uint64_t next_u64() {
    const uint64_t high = next_u32();
    return (high << 32) | next_u32();
  }
  /// [0, 1).
  double uniform() {
    const uint32_t high = next_u32();
    return uniform_f64(high, next_u32());
  }
  /// Standard normal by Box-Muller; draws two uniforms per number, so that the state stays a plain counter.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  /// Uniform in [0, bound), bound > 0, without modulo bias (Lemire 2019, "Fast Random Integer Generation").
  uint64_t below(uint64_t bound) {
    const uint64_t threshold = (0 - bound) % bound;
    for (;;) {
      const unsigned __int128 product = static_cast<unsigned __int128>(next_u64()) * bound;
      if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
    }
  }

 private:
  State state_;
  uint64_t cached_block_ = ~uint64_t{0};
  PhiloxBlock cache_{};
};

}  // namespace isochron
