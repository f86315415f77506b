#include "isochron/train/callbacks/run_document.h"

#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"

namespace isochron::train {
namespace {

TEST(RunDocument, ComesBackAsItWasWritten) {
  RunDocument document;
  document.epoch = 3;
  document.step = (int64_t{1} << 62) + 1;
  document.random = {5, -7};
  document.callbacks = {{"a", "1"}, {"b", ""}};
  document.asked = 1;
  const std::string text = document.str();
  const RunDocument read = RunDocument::parse(text, "here");
  EXPECT_EQ(read.step, document.step);
  EXPECT_EQ(read.random, document.random);
  EXPECT_EQ(read.asked, 1);
  EXPECT_EQ(read.str(), text);
}

TEST(RunDocument, HistoryIsALineAnEpoch) {
  EpochRecord record;
  record.results.set("loss", 0.25);
  std::string text;
  for (record.epoch = 1; record.epoch <= 3; ++record.epoch) {
    record.steps = 12 * record.epoch;
    append_history(text, record);
  }
  const std::vector<EpochRecord> read = parse_history(text, "here");
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[2].epoch, 3);
  EXPECT_EQ(read[2].steps, 36);
  EXPECT_EQ(read[2].results["loss"], 0.25);
  EXPECT_TRUE(parse_history("", "here").empty());
  EXPECT_ERROR(parse_history(text.substr(0, text.size() - 5), "here"), ErrorCode::kBadFormat,
               "line 3 of the history is not the record of an epoch");
  EXPECT_ERROR(parse_history(text + "\n", "here"), ErrorCode::kBadFormat, "line 4 of the history");
}

TEST(RunDocument, WholeNumbersMustBeWholeAndFit) {
  RunDocument document;
  document.step = 12345;
  const std::string text = document.str();
  const size_t at = text.find("12345");
  for (const char* unfit : {"1e300", "-1e300", "2.5", "9223372036854775808", "true", "\"7\"", "null", "[]"}) {
    std::string changed = text;
    changed.replace(at, 5, unfit);
    EXPECT_ERROR(RunDocument::parse(changed, "here"), ErrorCode::kBadFormat, "not a whole number");
  }
  std::string changed = text;
  changed.replace(at, 5, "-1");
  EXPECT_ERROR(RunDocument::parse(changed, "here"), ErrorCode::kBadFormat, "can't be negative");
}

}  // namespace
}  // namespace isochron::train
