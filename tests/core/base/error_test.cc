#include "isochron/core/base/error.h"

#include <gmock/gmock.h>

#include <set>

namespace isochron {
namespace {

TEST(Error, SaysWhereAndWhat) {
  try {
    fail(ErrorCode::kShapeMismatch, "matmul", "{} x {}", 3, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShapeMismatch);
    EXPECT_EQ(error.where(), "matmul");
    EXPECT_STREQ(error.what(), "[matmul] 3 x 4");
  }
}

TEST(Error, RequireThrowsOnlyWhenTheConditionFails) {
  EXPECT_NO_THROW(require(true, ErrorCode::kIo, "x", "never"));
  EXPECT_THROW(require(false, ErrorCode::kIo, "x", "always"), Error);
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kDeviceLost); ++code) {
    names.insert(error_code_name(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(ErrorCode::kDeviceLost) + 1);
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Error, ExitCodesFollowTheCommandsContract) {
  EXPECT_EQ(exit_code(ErrorCode::kNotANumber), 1);
  EXPECT_EQ(exit_code(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(ErrorCode::kUnsupported), 2);
  EXPECT_EQ(exit_code(ErrorCode::kDeviceLost), 5);
  for (ErrorCode bad_input : {ErrorCode::kShapeMismatch, ErrorCode::kDtypeMismatch, ErrorCode::kOutOfRange,
                              ErrorCode::kOverflow, ErrorCode::kIo, ErrorCode::kBadFormat}) {
    EXPECT_EQ(exit_code(bad_input), 3) << error_code_name(bad_input);
  }
  EXPECT_EQ(exit_code(ErrorCode::kOutOfMemory), 4);
  for (ErrorCode other : {ErrorCode::kCaptureViolation, ErrorCode::kSealed, ErrorCode::kStale}) {
    EXPECT_EQ(exit_code(other), 1) << error_code_name(other);
  }
}

}  // namespace
}  // namespace isochron
