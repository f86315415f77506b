#include "isochron/core/files/leftovers.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "isochron/core/files/file.h"
#include "isochron/core/files/run_folder.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"
#include "support/temp_folder.h"

namespace isochron {
namespace {

namespace fs = std::filesystem;

TEST(Leftovers, WhatIsNotedGoesWithAllItHolds) {
  const TempFolder parent;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto* folder = new RunFolder(parent.path());
    fs::create_directories(folder->path() / "a" / "b");
    std::ofstream(folder->path() / "a" / "b" / "half") << "half";
    std::ofstream(parent / "mine.tmp") << "half";
    std::ofstream(parent / "other") << "whole";
    const Leftover file(parent / "mine.tmp");
    { const Leftover done(parent / "other"); }
    remove_leftovers();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(parent.path())) left.push_back(entry.path().filename());
  EXPECT_THAT(left, testing::ElementsAre("other"));
}

TEST(Leftovers, AProcessThatWasKilledLeavesThemToItsParent) {
  const TempFolder parent;
  Leftover::prepare();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto* folder = new RunFolder(parent.path());
    std::ofstream(folder->path() / "half") << "half";
    ::_exit(0);  // as killed
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(fs::is_empty(parent.path()));
  remove_leftovers_of(child);
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

/// Has a child make a folder and keep running, then cleans up as a signal handler does. Returns 0 if nothing
/// is left.
int end_of_a_family() {
  const TempFolder parent;
  Leftover::prepare();
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder folder(parent.path());
    if (::write(ends[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char ready = 0;
  if (::read(ends[0], &ready, 1) != 1 || fs::is_empty(parent.path())) return 2;
  remove_leftovers();
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) return 3;  // else it would make more
  return fs::is_empty(parent.path()) ? 0 : 4;
}

TEST(LeftoversDeathTest, ThoseOfChildrenGoWithTheirParent) {
  const std::string style = GTEST_FLAG_GET(death_test_style);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, which is the first of its family
  EXPECT_EXIT(::_exit(end_of_a_family()), testing::ExitedWithCode(0), "");
  GTEST_FLAG_SET(death_test_style, style);
}

TEST(RunFolder, LeavesNothingWithoutAFileHandleForItsLock) {
  if (kSanitizer) GTEST_SKIP() << "file handles can't be limited here";
  const TempFolder parent;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = ::dup(0);  // the next free file handle
  ASSERT_GE(free, 0);
  ::close(free);
  const rlimit few{static_cast<rlim_t>(free), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_ERROR(RunFolder(parent.path()), ErrorCode::kIo, "cannot lock the folder: Too many open files");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

TEST(ReplaceFile, IsWholeOrAsItWas) {
  const TempFolder folder;
  const fs::path path = folder / "live.json";
  replace_file(path, "first");
  replace_file(path, "second");
  const auto bytes = read_file(path);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_ERROR(replace_file(folder / "none" / "x", "x"), ErrorCode::kIo, "none");
}

TEST(ReadFile, APipeThatNobodyWritesToIsAnError) {
  const TempFolder folder;
  const fs::path path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_ERROR(read_file(path), ErrorCode::kIo, "is a pipe that nobody writes to");
}

}  // namespace
}  // namespace isochron
