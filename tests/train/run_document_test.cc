#include "isochron/train/run_document.h"

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
  std::string history;
  EpochRecord record;
  record.epoch = 3;
  record.steps = 12;
  append_history(history, record);
  const std::string text = document.str(history);
  const RunDocument read = RunDocument::parse(text, "here");
  EXPECT_EQ(read.step, document.step);
  EXPECT_EQ(read.random, document.random);
  EXPECT_EQ(read.history.size(), 1u);
  EXPECT_EQ(read.str(history), text);
}

TEST(RunDocument, WholeNumbersMustBeWholeAndFit) {
  RunDocument document;
  document.step = 12345;
  const std::string text = document.str("");
  const size_t at = text.find("12345");
  for (const char* unfit : {"1e300", "-1e300", "2.5", "9223372036854775808", "true", "\"7\"", "null", "[]"}) {
    std::string changed = text;
    changed.replace(at, 5, unfit);
    EXPECT_ERROR(RunDocument::parse(changed, "here"), ErrorCode::kBadFormat, "no whole number");
  }
  std::string changed = text;
  changed.replace(at, 5, "-1");
  EXPECT_ERROR(RunDocument::parse(changed, "here"), ErrorCode::kBadFormat, "can't be negative");
}

}  // namespace
}  // namespace isochron::train
