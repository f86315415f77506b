#include "isochron/optim/buckets.h"

#include <gmock/gmock.h>

namespace isochron::optim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

TEST(Buckets, BecomeSmallerTowardsWhatIsSentLast) {
  const std::vector<size_t> layers(32, 128 * kKiB);
  // 1 MiB each, while as much is left; then half of what is left.
  EXPECT_THAT(bucket_begins(layers, kMiB), ElementsAre(24, 16, 8, 4, 2, 0));
  EXPECT_THAT(bucket_begins(layers, 64 * kMiB), ElementsAre(16, 8, 4, 2, 0));
}

TEST(Buckets, WhatIsTooLittleGoesWithTheOneBefore) {
  EXPECT_THAT(bucket_begins(std::vector<size_t>{100 * kKiB, kMiB, kMiB}, kMiB), ElementsAre(2, 0));
  EXPECT_THAT(bucket_begins(std::vector<size_t>{256 * kKiB, kMiB, kMiB}, kMiB), ElementsAre(2, 1, 0));
  EXPECT_THAT(bucket_begins(std::vector<size_t>{10, 20, 30}, kMiB), ElementsAre(0));
}

TEST(Buckets, SmallOnesAreAsSmallAsAskedFor) {
  EXPECT_THAT(bucket_begins(std::vector<size_t>{400, 4, 400, 4, 400}, 1), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_THAT(bucket_begins(std::vector<size_t>{100, 100, 100, 100, 100}, 200), ElementsAre(3, 0));
}

TEST(Buckets, OfNothingThereAreNone) {
  EXPECT_THAT(bucket_begins({}, kMiB), IsEmpty());
  EXPECT_THAT(bucket_begins(std::vector<size_t>{0}, kMiB), ElementsAre(0));
  EXPECT_THAT(bucket_begins(std::vector<size_t>{0, 0}, 1), ElementsAre(0));
}

}  // namespace
}  // namespace isochron::optim
