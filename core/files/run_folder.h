// Where a process keeps incomplete files: in a folder of its own, inside the folder that the finished files
// are moved to (a rename works only within one file system). It is removed when the process ends.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "isochron/core/files/leftovers.h"

namespace isochron {

/// The folder `PARENT/.isochron-run-PID-N`. A file `.lock` in it is locked; the system releases the lock when
/// the process dies for any reason. Creating a run folder removes those of dead processes, with their
/// content, even those of other machines if the file system's locks work across machines. A RunFolder is a
/// Leftover.
class RunFolder {
 public:
  /// Throws kIo, and leaves nothing behind in that case. `parent` must exist.
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

/// Removes what dead processes left in `parent`: the entries for which `may_be_theirs` returns true and on
/// which nobody holds a lock. For a folder, the lock is on its file `.lock`. A folder without that file stays
/// for an hour, unless it is empty.
void remove_leftovers_of_dead_processes(
    const std::filesystem::path& parent,
    const std::function<bool(const std::filesystem::directory_entry& entry)>& may_be_theirs);

/// Reserves a folder for one process, with a lock on it that the system releases when the process dies. If
/// the file system has no locks, other processes aren't kept out.
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
