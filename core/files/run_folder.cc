#include "isochron/core/files/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

constexpr std::string_view kPrefix = ".isochron-run-";
/// The file in a run folder that is locked, because locks on folders don't reach other machines that share a
/// file system.
constexpr const char* kLockName = ".lock";
/// Creating a folder and its lock file takes less than this, even by the clock of a file server.
constexpr auto kLongestMaking = std::chrono::hours(1);

/// Locks the file or folder at `path` and returns its descriptor. Returns -1 and sets errno if that fails: to
/// EWOULDBLOCK if another process holds the lock.
int try_lock(const std::filesystem::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) return -1;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

/// The same for a directory entry. A folder is locked through the lock file in it.
int try_lock_of(const std::filesystem::directory_entry& entry) {
  std::error_code failed;
  if (entry.is_symlink(failed)) return -1;
  if (!entry.is_directory(failed)) return try_lock(entry.path(), O_RDWR | O_NONBLOCK);
  const int lock = try_lock(entry.path() / kLockName, O_RDWR | O_NONBLOCK);
  if (lock >= 0 || errno != ENOENT) return lock;
  // The lock file of a new folder may still be created.
  const auto written = std::filesystem::last_write_time(entry.path(), failed);
  if (failed) return -1;
  const int of_folder = try_lock(entry.path(), O_RDONLY | O_DIRECTORY);
  if (of_folder < 0 || std::filesystem::file_time_type::clock::now() - written >= kLongestMaking)
    return of_folder;
  // An empty folder may be removed at once: a process that is about to create the lock file in it then tries
  // another name.
  ::rmdir(entry.path().c_str());
  ::close(of_folder);
  return -1;
}

void remove_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

void remove_leftovers_of_dead_processes(
    const std::filesystem::path& parent,
    const std::function<bool(const std::filesystem::directory_entry& entry)>& may_be_theirs) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(parent, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    if (!may_be_theirs(*at)) continue;
    const int lock = try_lock_of(*at);
    if (lock < 0) continue;
    std::error_code failed;
    std::filesystem::remove_all(at->path(), failed);
    ::close(lock);
    if (failed) remove_quietly(at->path());  // on network file systems, the open lock file keeps the folder
  }
}

RunFolder::RunFolder(const std::filesystem::path& parent) {
  static std::atomic<int> made{0};
  remove_leftovers_of_dead_processes(parent, [](const std::filesystem::directory_entry& entry) {
    std::error_code ignored;
    return entry.path().filename().string().starts_with(kPrefix) && entry.is_directory(ignored);
  });
  // Until the lock file is locked, another process may take the folder for a dead process's and remove it.
  // The next number is then tried.
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path_ = parent / fmt::format("{}{}-{}", kPrefix, ::getpid(), made++);
    leftover_.emplace(path_);  // before the folder exists, so that an exception leaves nothing
    if (::mkdir(path_.c_str(), 0777) != 0) {
      const int error = errno;
      leftover_.reset();
      // Processes of two containers may have the same id.
      if (error == EEXIST) continue;
      fail(ErrorCode::kIo, path_.string(), "cannot create the folder: {}", std::strerror(error));
    }
    std::error_code failed;
    lock_ = try_lock(path_ / kLockName, O_RDWR | O_CREAT);
    const int error = lock_ < 0 ? errno : ENOENT;
    if (lock_ >= 0 && std::filesystem::exists(path_ / kLockName, failed)) return;
    if (lock_ >= 0) ::close(std::exchange(lock_, -1));
    ::rmdir(path_.c_str());  // if the file exists, the other process removes both
    require(error == EWOULDBLOCK || error == ENOENT, ErrorCode::kIo, path_.string(),
            "cannot lock the folder: {}", std::strerror(error));
  }
  fail(ErrorCode::kIo, path_.string(), "cannot lock the folder: other processes took it {} times", kAttempts);
}

RunFolder::~RunFolder() {
  remove_quietly(path_);
  ::close(lock_);
  remove_quietly(path_);  // again, because on network file systems the open lock file keeps the folder
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
