#include "isochron/comm/watch/rank_status.h"

#include <gmock/gmock.h>

namespace isochron::comm {
namespace {

RankStatus example() {
  return {.run = 0x0123456789abcdef,
          .rank = 1,
          .host = "alpha",
          .process = 4711,
          .time = "2026-11-26 07:53:00 UTC",
          .beat = 63,
          .entered = 17,
          .finished = 16,
          .waited_s = 2.5,
          .label = "sums of gradients",
          .bytes = 1'048'576,
          .doing = "computing",
          .doing_s = 0.25,
          .epoch = 3,
          .step = 812};
}

TEST(RankStatus, ComesBackFromItsText) {
  const std::string text = status_text(example());
  EXPECT_EQ(text.size(), kRankStatusBytes);
  const std::optional<RankStatus> read = parse_status(text);
  ASSERT_TRUE(read.has_value()) << text;
  EXPECT_EQ(status_text(*read), text);
  EXPECT_EQ(read->run, example().run);
  EXPECT_EQ(read->host, "alpha");
  EXPECT_EQ(read->waited_s, 2.5);
  EXPECT_EQ(read->label, "sums of gradients");
  EXPECT_EQ(read->step, 812);
  EXPECT_TRUE(read->waits());
}

TEST(RankStatus, IsAsLongWithTheLongestNumbersAndTexts) {
  RankStatus status = example();
  status.run = UINT64_MAX;
  status.rank = INT32_MIN;
  for (int64_t* number : {&status.process, &status.beat, &status.entered, &status.finished, &status.bytes,
                          &status.epoch, &status.step})
    *number = INT64_MIN;
  status.waited_s = status.doing_s = 1e12;
  for (std::string* text : {&status.host, &status.time, &status.label, &status.doing})
    *text = std::string(1000, 'x') + "\n";
  const std::optional<RankStatus> read = parse_status(status_text(status));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->beat, INT64_MIN);
  EXPECT_EQ(read->host, std::string(64, 'x'));
}

TEST(RankStatus, TextsStayInTheirLine) {
  RankStatus status = example();
  status.host = "a\nrank 7";
  EXPECT_EQ(parse_status(status_text(status))->host, "a?rank 7");
}

TEST(RankStatus, OfADamagedFileNothingIsTaken) {
  const std::string text = status_text(example());
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_FALSE(parse_status(text.substr(0, bytes)).has_value()) << bytes;
    std::string other = text;
    other[bytes] = static_cast<char>(other[bytes] ^ 1);
    EXPECT_FALSE(parse_status(other).has_value()) << bytes;
  }
  EXPECT_FALSE(parse_status(text + " ").has_value());
  EXPECT_FALSE(parse_status(std::string(kRankStatusBytes, '\0')).has_value());
  EXPECT_FALSE(parse_status("").has_value());
}

}  // namespace
}  // namespace isochron::comm
