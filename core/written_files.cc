#include "isochron/core/written_files.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>

namespace isochron {
namespace {

struct Note {
  int64_t number;
  FileKind kind;
  std::filesystem::path path;
};

struct Notes {
  std::mutex mutex;
  std::deque<Note> newest;
  int64_t ever = 0;
};

Notes& notes() {
  static Notes* const instance = new Notes;  // outlives every static that may still write
  return *instance;
}

}  // namespace

void note_written_file(FileKind kind, const std::filesystem::path& path) noexcept {
  try {
    std::error_code unknown;
    std::filesystem::path absolute = std::filesystem::absolute(path, unknown);
    std::lock_guard lock(notes().mutex);
    notes().newest.push_back({notes().ever, kind, std::move(absolute)});
    ++notes().ever;
    if (notes().newest.size() > kMaxWrittenFiles) notes().newest.pop_front();
  } catch (const std::bad_alloc&) {
  }
}

int64_t written_files() {
  std::lock_guard lock(notes().mutex);
  return notes().ever;
}

FilesLeft files_left(FileKind kind, int64_t since) {
  std::set<std::filesystem::path> paths;
  {
    std::lock_guard lock(notes().mutex);
    for (const Note& note : notes().newest) {
      if (note.kind == kind && note.number >= since) paths.insert(note.path);
    }
  }
  FilesLeft result;
  for (const std::filesystem::path& path : paths) {
    std::error_code unknown;
    ++result.written;
    result.left += std::filesystem::exists(path, unknown);
  }
  return result;
}

}  // namespace isochron
