#include "isochron/core/base/rng.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace isochron {
namespace {

// Known answers of philox4x32 with ten rounds, from the Random123 distribution (kat_vectors).
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, StreamsTheBlocksInOrder) {
  Rng rng(0, 0);
  EXPECT_EQ(rng.next_u32(), 0x6627e8d5u);
  EXPECT_EQ(rng.next_u64(), 0xe169c58dbc57ac4cu);
  EXPECT_EQ(rng.next_u32(), 0x9b00dbd8u);
  EXPECT_EQ(rng.next_u32(), philox4x32({1, 0, 0, 0}, {0, 0})[0]);
}

TEST(Rng, ResumesFromItsStateAtAnyPosition) {
  for (int drawn = 0; drawn < 9; ++drawn) {
    Rng rng(42, 7);
    for (int i = 0; i < drawn; ++i) rng.next_u32();
    Rng resumed(rng.state());
    for (int i = 0; i < 10; ++i) ASSERT_EQ(rng.next_u32(), resumed.next_u32()) << "after " << drawn;
    EXPECT_EQ(rng.state(), resumed.state());
  }
}

TEST(Rng, SeedsAndStreamsDiffer) {
  EXPECT_NE(Rng(1, 0).next_u64(), Rng(2, 0).next_u64());
  EXPECT_NE(Rng(1, 0).next_u64(), Rng(1, 1).next_u64());
  EXPECT_NE(Rng(1, uint64_t{1} << 40).next_u64(), Rng(1, 0).next_u64())
      << "the high half of the stream counts";
}

TEST(Rng, UniformIsHalfOpenAndNormalIsStandard) {
  EXPECT_EQ(uniform_f32(0), 0.0f);
  EXPECT_LT(uniform_f32(~0u), 1.0f);
  EXPECT_LT(uniform_f64(~0u, ~0u), 1.0);
  Rng rng(3);
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = rng.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.016) << "five standard errors";
  EXPECT_NEAR(squares / kDraws, 1.0, 0.023) << "five standard errors";
}

TEST(Rng, BelowStaysBelowAndReachesEveryValueEvenly) {
  Rng rng(5);
  std::vector<int> counts(10);
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = rng.below(counts.size());
    ASSERT_LT(value, counts.size());
    ++counts[value];
  }
  double chi_squared = 0;
  for (int n : counts) chi_squared += (n - kDraws / 10.0) * (n - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi_squared, 33.7) << "9 degrees of freedom at p = 1e-4";
  EXPECT_EQ(rng.below(1), 0u);
}

}  // namespace
}  // namespace isochron
