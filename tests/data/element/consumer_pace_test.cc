#include "isochron/data/element/consumer_pace.h"

#include <gtest/gtest.h>

namespace isochron::data {
namespace {

TEST(ConsumerPace, NapsUntilHalfOfTheSlotsAreFree) {
  ConsumerPace pace;
  EXPECT_EQ(pace.nap_ns(1000, 18, 18), std::nullopt) << "how fast the consumer is isn't known yet";
  EXPECT_EQ(pace.nap_ns(1000 + 18 * 20'000, 36, 18), 9 * 20'000);
  EXPECT_EQ(pace.nap_ns(1000 + 27 * 20'000, 45, 18), 9 * 20'000);
  EXPECT_EQ(pace.nap_ns(1000 + 28 * 20'000, 45, 18), 9 * 20'000)
      << "a second worker, with nothing new to tell";
  EXPECT_EQ(pace.nap_ns(1000 + 27 * 20'000 + 90 * 5'000, 135, 18), 9 * 5'000) << "it goes faster at once";
}

TEST(ConsumerPace, APauseIsNoPace) {
  ConsumerPace pace;
  pace.nap_ns(1000, 10, 10);
  EXPECT_EQ(pace.nap_ns(1000 + 10 * 1000, 20, 10), 5 * 1000);
  EXPECT_EQ(pace.nap_ns(1'000'000'000, 30, 10), 2 * 5 * 1000)
      << "twice as slow at most from one look to the next";
  ConsumerPace slow;
  slow.nap_ns(1000, 10, 10);
  EXPECT_EQ(slow.nap_ns(60'000'000'000, 20, 10), ConsumerPace::kLongestNapNs);
}

TEST(ConsumerPace, FruitlessNapsGrowUntilOnlyTheConsumerWakes) {
  const ConsumerPace pace;
  std::optional<int64_t> nap = 60'000;
  int naps = 0;
  for (; nap; ++naps) {
    const std::optional<int64_t> next = pace.next_nap_ns(*nap);
    if (next) {
      EXPECT_GT(*next, *nap);
    }
    nap = next;
  }
  EXPECT_EQ(naps, 12);
}

TEST(ConsumerPace, OneSlotIsHalfOfOne) {
  ConsumerPace pace;
  pace.nap_ns(1000, 1, 1);
  EXPECT_EQ(pace.nap_ns(2000, 2, 1), 1000);
}

}  // namespace
}  // namespace isochron::data
