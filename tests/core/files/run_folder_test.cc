#include "isochron/core/files/run_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, IsThereWhileTheProcessNeedsIt) {
  const TempFolder parent;
  fs::path path;
  {
    const RunFolder folder(parent.path()), second(parent.path());
    path = folder.path();
    EXPECT_TRUE(fs::is_directory(path));
    EXPECT_NE(path, second.path());
    std::ofstream(path / "part") << "half";
  }
  EXPECT_TRUE(fs::is_empty(parent.path())) << "gone with all it holds";
  EXPECT_ERROR(RunFolder(parent / "none"), ErrorCode::kIo, "none");
}

TEST(RunFolder, ThoseOfDeadProcessesGoAndOfLivingOnesStay) {
  const TempFolder parent;
  const RunFolder living(parent.path());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto* left = new RunFolder(parent.path());
    std::ofstream(left->path() / "part") << "half";
    ::_exit(0);  // as killed: nothing is cleaned up
  }
  ASSERT_GT(child, 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()), 2);
  const RunFolder next(parent.path());
  EXPECT_EQ(std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()), 2);
  EXPECT_TRUE(fs::exists(living.path()));
  EXPECT_TRUE(fs::exists(next.path()));
}

TEST(RunFolder, IsKeptByALockOnAFileInIt) {
  const TempFolder parent;
  const RunFolder folder(parent.path());
  const int other = ::open((folder.path() / ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(other, 0);
  EXPECT_EQ(::flock(other, LOCK_EX | LOCK_NB), -1);
  ::close(other);
}

TEST(RunFolder, OneWithoutAFileToLockStaysForAnHour) {
  const TempFolder parent;
  const fs::path fresh = parent / ".isochron-run-1-0", old = parent / ".isochron-run-1-1";
  const fs::path link = parent / ".isochron-run-1-2";
  for (const fs::path& path : {fresh, old}) {
    fs::create_directory(path);
    std::ofstream(path / "part") << "half";
  }
  fs::create_directory_symlink(old, link);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  const RunFolder next(parent.path());
  EXPECT_TRUE(fs::exists(fresh / "part"));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST(RunFolder, AnEmptyOneGoesAtOnce) {
  const TempFolder parent;  // of a process that was killed before it made its file, or after it removed it
  const fs::path empty = parent / ".isochron-run-1-0";
  fs::create_directory(empty);
  const RunFolder next(parent.path());
  EXPECT_FALSE(fs::exists(empty));
}

TEST(RunFolder, LeavesAnothersOfTheSameNameAlone) {
  const TempFolder parent;  // of a process of another container, which bears the same number
  const std::string own = RunFolder(parent.path()).path().filename().string();
  const size_t dash = own.rfind('-');
  const int number = std::stoi(own.substr(dash + 1));
  const fs::path theirs = parent / (own.substr(0, dash + 1) + std::to_string(number + 1));
  fs::create_directory(theirs);
  const FolderLock lock(theirs);
  const RunFolder next(parent.path());
  EXPECT_NE(next.path(), theirs);
  EXPECT_TRUE(fs::exists(theirs));
}

TEST(FolderLock, KeepsOthersOutWhileItLives) {
  const TempFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_ERROR(FolderLock(folder.path()), ErrorCode::kIo, "is in use by another process");
  }
  EXPECT_NO_THROW(FolderLock(folder.path()));
  EXPECT_ERROR(FolderLock(folder / "none"), ErrorCode::kIo, "cannot open the folder");
}

}  // namespace
}  // namespace isochron
