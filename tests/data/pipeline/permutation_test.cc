#include "isochron/data/pipeline/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/pipeline/small_datasets.h"

namespace isochron::data {
namespace {

TEST(Permutation, IsOneForEverySize) {
  for (uint64_t size : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 100u, 1000u, 4097u, 65536u}) {
    const Permutation order(size, 7, 3);
    std::vector<bool> seen(size);
    for (uint64_t place = 0; place < size; ++place) {
      const uint64_t element = order(place);
      ASSERT_LT(element, size);
      ASSERT_FALSE(seen[element]) << size;
      seen[element] = true;
    }
  }
}

TEST(Permutation, PutsEveryElementAnywhere) {
  constexpr uint64_t kSize = 10, kTries = 20'000;
  std::vector<int> counts(kSize * kSize);
  for (uint64_t seed = 0; seed < kTries; ++seed) {
    const Permutation order(kSize, seed, 0);
    for (uint64_t place = 0; place < kSize; ++place) ++counts[place * kSize + order(place)];
  }
  double chi_squared = 0;
  const double expected = static_cast<double>(kTries) / kSize;
  for (int n : counts) chi_squared += (n - expected) * (n - expected) / expected;
  EXPECT_LT(chi_squared, 130.0) << "81 degrees of freedom at about p = 4e-4";
}

TEST(Shuffle, OfAWholeLargeEpochIsAPermutation) {
  auto rows_of_it = rows(10'000).shuffle(10'000, {.seed = 2});
  const auto first = numbers_of(rows_of_it), again = numbers_of(rows_of_it);
  EXPECT_EQ(first, again) << "copies begin at epoch 0";
  auto sorted = first;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<double>(i));
  double moved = 0;
  for (size_t i = 0; i < first.size(); ++i) moved += std::abs(first[i] - static_cast<double>(i));
  EXPECT_NEAR(moved / 1e4, 1e4 / 3, 150) << "a third of the way on average";
}

}  // namespace
}  // namespace isochron::data
