// Files and folders that must be gone when the process is: temporary ones, halves. Their makers remove them;
// for a process that ends by a signal, whoever handles it removes those that are noted here, of this process
// and of those that it has forked.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace isochron {

/// While it lives, the file or folder is noted. At most `kMost` are, with absolute paths of less than 1,024
/// bytes; others are not. Allocates no memory of its own beyond the path.
class Leftover {
 public:
  static constexpr int kMost = 64;

  explicit Leftover(const std::filesystem::path& path);
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;
  ~Leftover();

  /// Makes room for the notes, which processes forked later share. The first note does so by itself.
  static void prepare();

 private:
  int at_ = -1;
};

/// Removes what is noted, with all that folders hold; what can't be removed stays. Processes forked by this
/// one that have noted something are killed before. Safe to call from a signal's handler.
void remove_leftovers() noexcept;
/// What a process that was forked by this one, and is gone, has noted.
void remove_leftovers_of(pid_t process) noexcept;

}  // namespace isochron
