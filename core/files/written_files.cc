#include "isochron/core/files/written_files.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace isochron {
namespace {

struct WrittenFileNote {
  int64_t number = 0;
  std::string path;
};

/// The newest of one kind, in a ring.
struct Ring {
  std::vector<WrittenFileNote> notes;
  size_t written = 0;
};

struct WrittenFiles {
  std::mutex mutex;
  std::array<Ring, 2> rings;  // by FileKind
  int64_t ever = 0;
};

WrittenFiles& all_files() {
  static WrittenFiles* const instance = new WrittenFiles;  // outlives every static that may still write
  return *instance;
}

/// Room that is reserved for each path; longer paths allocate more.
constexpr size_t kUsualPath = 160;

void make_room(Ring& ring) {
  std::vector<WrittenFileNote> made(kMaxWrittenFiles);
  for (WrittenFileNote& note : made) note.path.reserve(kUsualPath);
  ring.notes = std::move(made);
}

}  // namespace

void note_written_file(FileKind kind, const std::filesystem::path& path) noexcept {
  try {
    std::error_code unknown;
    const std::filesystem::path absolute = std::filesystem::absolute(path, unknown);
    std::lock_guard lock(all_files().mutex);
    Ring& ring = all_files().rings[static_cast<size_t>(kind)];
    if (ring.notes.empty()) make_room(ring);
    WrittenFileNote& note = ring.notes[ring.written % ring.notes.size()];
    note.path = absolute.native();
    note.number = all_files().ever++;
    ++ring.written;
  } catch (const std::bad_alloc&) {
  }
}

int64_t written_files() {
  std::lock_guard lock(all_files().mutex);
  return all_files().ever;
}

FilesLeft files_left(FileKind kind, int64_t since) {
  std::set<std::string> paths;
  {
    std::lock_guard lock(all_files().mutex);
    const Ring& ring = all_files().rings[static_cast<size_t>(kind)];
    for (size_t i = 0; i < std::min(ring.written, ring.notes.size()); ++i) {
      if (ring.notes[i].number >= since) paths.insert(ring.notes[i].path);
    }
  }
  FilesLeft result;
  for (const std::string& path : paths) {
    std::error_code unknown;
    ++result.written;
    result.left += std::filesystem::exists(path, unknown);
  }
  return result;
}

}  // namespace isochron
