#include "isochron/core/telemetry/log.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include "support/expect_error.h"

namespace isochron {
namespace {

std::string lines_at(LogLevel level) {
  std::FILE* file = std::tmpfile();
  {
    const Log log(level, file);
    emit({EventKind::kTrace, "step", "traced 4 nodes"});
    emit({EventKind::kCheckpoint, "cp-1", "written"});
    emit({EventKind::kNotice, "x", "the cache can't be read"});
  }
  emit({EventKind::kNotice, "x", "after the log's end"});
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Log, EachLevelIncludesThoseBefore) {
  EXPECT_EQ(lines_at(LogLevel::kError), "");
  EXPECT_EQ(lines_at(LogLevel::kWarning), "isochron: warning: the cache can't be read\n");
  EXPECT_EQ(lines_at(LogLevel::kInfo),
            "isochron: info: cp-1: written\nisochron: warning: the cache can't be read\n");
  EXPECT_EQ(lines_at(LogLevel::kDebug),
            "isochron: debug: step: traced 4 nodes\nisochron: info: cp-1: written\n"
            "isochron: warning: the cache can't be read\n");
}

TEST(Log, WarningsAreSeenWithoutOne) {
  testing::internal::CaptureStderr();
  emit({EventKind::kNotice, "x", "the cache can't be read"});
  emit({EventKind::kCheckpoint, "cp-1", "written"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "isochron: warning: the cache can't be read\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(lines_at(LogLevel::kError), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "isochron: warning: after the log's end\n");
}

TEST(Log, TheEnvironmentSetsTheLevel) {
  EXPECT_EQ(log_level("debug", "--log-level"), LogLevel::kDebug);
  EXPECT_ERROR(log_level("loud", "--log-level"), ErrorCode::kInvalidArgument,
               "[--log-level] log level 'loud' does not exist; expected error, warning, info or debug");
  ::unsetenv("ISOCHRON_LOG");
  EXPECT_EQ(log_level_of_environment(), LogLevel::kWarning);
  ::setenv("ISOCHRON_LOG", "error", 1);
  EXPECT_EQ(log_level_of_environment(), LogLevel::kError);
  ::setenv("ISOCHRON_LOG", "7", 1);
  EXPECT_ERROR(log_level_of_environment(), ErrorCode::kInvalidArgument, "[ISOCHRON_LOG]");
  ::unsetenv("ISOCHRON_LOG");
}

}  // namespace
}  // namespace isochron
