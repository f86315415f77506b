// Files and folders that must be gone when the process ends: temporary ones and incomplete ones. Their
// creators remove them. If a signal ends the process, the signal handler removes the ones noted here by this
// process and by the processes that it has forked.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace isochron {

/// While it exists, the file or folder is noted. At most `kMax` are noted, with absolute paths of less than
/// 1,024 bytes; others are not. Allocates no memory beyond the path.
class Leftover {
 public:
  static constexpr int kMax = 64;

  explicit Leftover(const std::filesystem::path& path);
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;
  ~Leftover();

  /// Allocates memory for the notes, which processes forked later share. The first note does this too.
  static void prepare();

 private:
  int at_ = -1;
};

/// Removes everything that is noted, including the contents of folders; what can't be removed stays.
/// Processes forked by this one that have noted something are killed first. Safe to call from a signal
/// handler.
void remove_leftovers() noexcept;
/// Removes what `process`, which this process had forked and which has ended, had noted.
void remove_leftovers_of(pid_t process) noexcept;

}  // namespace isochron
