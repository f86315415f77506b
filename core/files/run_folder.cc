#include "isochron/core/files/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

constexpr std::string_view kPrefix = ".isochron-run-";

/// Takes the lock of what is at `path`; -1, with errno, when that can't be done: EWOULDBLOCK where another
/// has it.
int try_lock(const std::filesystem::path& path, int kind) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | kind | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return -1;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

void remove_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

void remove_those_of_the_dead(
    const std::filesystem::path& parent,
    const std::function<bool(const std::filesystem::directory_entry& entry)>& may_be_theirs) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(parent, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    if (!may_be_theirs(*at)) continue;
    const int lock = try_lock(at->path(), O_NONBLOCK);
    if (lock < 0) continue;
    std::error_code failed;
    std::filesystem::remove_all(at->path(), failed);
    ::close(lock);
  }
}

RunFolder::RunFolder(const std::filesystem::path& parent) {
  static std::atomic<int> made{0};
  remove_those_of_the_dead(parent, [](const std::filesystem::directory_entry& entry) {
    std::error_code ignored;
    return entry.path().filename().string().starts_with(kPrefix) && entry.is_directory(ignored);
  });
  // Another process may take an unlocked folder for one of the dead in between: then the next number is
  // tried.
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path_ = parent / fmt::format("{}{}-{}", kPrefix, ::getpid(), made++);
    leftover_.emplace(path_);  // before it is there: what throws leaves nothing
    if (::mkdir(path_.c_str(), 0777) != 0) {
      const int error = errno;
      leftover_.reset();
      // Processes of two containers may bear the same number.
      if (error == EEXIST) continue;
      fail(ErrorCode::kIo, path_.string(), "cannot create the folder: {}", std::strerror(error));
    }
    std::error_code failed;
    lock_ = try_lock(path_, O_DIRECTORY);
    const int error = lock_ < 0 ? errno : ENOENT;
    if (lock_ >= 0 && std::filesystem::exists(path_, failed)) return;
    if (lock_ >= 0) ::close(std::exchange(lock_, -1));
    ::rmdir(path_.c_str());
    require(error == EWOULDBLOCK || error == ENOENT, ErrorCode::kIo, path_.string(),
            "cannot lock the folder: {}", std::strerror(error));
  }
  fail(ErrorCode::kIo, path_.string(), "cannot lock the folder: other processes take it, {} times",
       kAttempts);
}

RunFolder::~RunFolder() {
  remove_quietly(path_);
  ::close(lock_);
  remove_quietly(path_);  // once more, where only a file handle was missing
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : lock_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  require(lock_ >= 0, ErrorCode::kIo, folder.string(), "cannot open the folder: {}", std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(lock_);
  fail(ErrorCode::kIo, folder.string(),
       "is in use by another process; wait for its end, or name another folder");
}

FolderLock::~FolderLock() { ::close(lock_); }

}  // namespace isochron
