#include "isochron/core/files/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>

namespace isochron {
namespace {

struct Note {
  std::atomic<pid_t> owner;  // 0: free; -1: being written
  char path[1024];
};
static_assert(std::atomic<pid_t>::is_always_lock_free, "a signal's handler reads it");

struct Notes {
  pid_t root;  // the process that created the notes; the owners are this process and its forks
  std::array<Note, Leftover::kMax> all;
};

std::atomic<Notes*> g_notes{nullptr};

/// The notes, in memory that forked processes share; null if the system provides no such memory.
Notes* notes() {
  if (Notes* made = g_notes.load()) return made;
  void* memory = ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* fresh = static_cast<Notes*>(memory);  // zeroes: all are free
  fresh->root = ::getpid();
  Notes* before = nullptr;
  if (g_notes.compare_exchange_strong(before, fresh)) return fresh;
  ::munmap(memory, sizeof(Notes));
  return before;
}

constexpr int kDeepest = 8;

bool is_dots(const char* name) { return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0; }

/// A directory entry as the system call returns it; glibc's readdir allocates.
struct Entry {
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

void remove_at(int parent, const char* name, int depth);

/// Removes the entries of `folder`. Returns whether there were any.
bool empty_once(int folder, int depth) {
  alignas(Entry) char part[2048];
  bool found = false;
  for (;;) {
    const long got = ::syscall(SYS_getdents64, folder, part, sizeof part);
    if (got <= 0) return found;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(part + at);
      at += entry->bytes;
      if (is_dots(entry->name)) continue;
      found = true;
      remove_at(folder, entry->name, depth + 1);
    }
  }
}

void remove_at(int parent, const char* name, int depth) {
  if (::unlinkat(parent, name, 0) == 0 || depth >= kDeepest) return;
  // Other threads of the process may still create files in the folder.
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (::unlinkat(parent, name, AT_REMOVEDIR) == 0) return;
    const int folder = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return;
    empty_once(folder, depth);
    ::close(folder);
  }
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

}  // namespace

void Leftover::prepare() { static_cast<void>(notes()); }

Leftover::Leftover(const std::filesystem::path& path) {
  Notes* shared = notes();
  if (shared == nullptr) return;
  std::error_code unknown;
  const std::string absolute = std::filesystem::absolute(path, unknown).string();
  if (unknown || absolute.size() >= sizeof(Note::path)) return;
  for (size_t i = 0; i < shared->all.size(); ++i) {
    Note& note = shared->all[i];
    pid_t free = 0;
    if (!note.owner.compare_exchange_strong(free, -1)) continue;
    std::memcpy(note.path, absolute.c_str(), absolute.size() + 1);
    note.owner.store(::getpid());
    at_ = static_cast<int>(i);
    return;
  }
}

Leftover::~Leftover() {
  if (at_ >= 0) g_notes.load()->all[static_cast<size_t>(at_)].owner.store(0);
}

void remove_leftovers() noexcept {
  Notes* shared = g_notes.load();
  if (shared == nullptr) return;
  const pid_t self = ::getpid();
  const bool family = shared->root == self;
  for (Note& note : shared->all) {
    const pid_t owner = note.owner.load();
    if (family && owner > 0 && owner != self) ::kill(owner, SIGKILL);
  }
  for (Note& note : shared->all) {
    const pid_t owner = note.owner.load();
    if (owner == self || (family && owner > 0)) remove_at(AT_FDCWD, note.path, 0);
  }
}

void remove_leftovers_of(pid_t process) noexcept {
  Notes* shared = g_notes.load();
  if (shared == nullptr || process <= 0) return;
  for (Note& note : shared->all) {
    if (note.owner.load() != process) continue;
    remove_at(AT_FDCWD, note.path, 0);
    note.owner.store(0);
  }
}

}  // namespace isochron
