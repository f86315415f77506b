// Where a process keeps files that are not whole yet: one folder of its own below the folder that they will
// go to (a rename must stay within a file system), gone when the process is.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "isochron/core/files/leftovers.h"

namespace isochron {

/// `PARENT/.isochron-run-PID`, with a lock on a file `.lock` in it that the system gives back when the
/// process dies, however it does. Making one removes those of dead processes, with all they hold; of any
/// machine, where the file system has locks between machines. It is a Leftover.
class RunFolder {
 public:
  /// Throws kIo, and leaves nothing then. `parent` must exist.
  explicit RunFolder(const std::filesystem::path& parent);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();  // removes it

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
  std::optional<Leftover> leftover_;
};

/// Removes what processes left in `parent` that died: of the entries that may be theirs, those on which
/// nobody holds a lock, for a folder that on its file `.lock`. A folder without one stays for an hour.
void remove_those_of_the_dead(
    const std::filesystem::path& parent,
    const std::function<bool(const std::filesystem::directory_entry& entry)>& may_be_theirs);

/// Keeps a folder to one process, by a lock on it that the system gives back when the process dies. Where the
/// file system has no locks it keeps nobody out.
class FolderLock {
 public:
  /// Throws kIo when another process (or another lock of this one) has it, or it can't be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int lock_ = -1;
};

}  // namespace isochron
