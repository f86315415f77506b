// Files that lie in memory, for parsers that want a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>

#include "isochron/core/base/error.h"

namespace isochron::fuzz {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, ErrorCode::kIo, "memfd", "cannot be made");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  /// Its path, once it holds `content` and nothing else.
  std::filesystem::path holding(std::span<const std::byte> content) {
    const bool done =
        ::ftruncate(descriptor_, 0) == 0 &&
        ::pwrite(descriptor_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
    require(done, ErrorCode::kIo, "memfd", "cannot be written");
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

/// The file of this process, for one content at a time.
inline std::filesystem::path file_of(std::span<const std::byte> content) {
  static MemoryFile file;
  return file.holding(content);
}

}  // namespace isochron::fuzz
