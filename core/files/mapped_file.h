// MappedFile: a file's bytes as memory that the system fills as they are touched. Only for files that nobody
// can cut short, as that of the running program: touching bytes that a file has lost kills the process. All
// others are read (core/files/file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace isochron {

class MappedFile {
 public:
  /// Maps `path` for reading. Throws kIo unless it is a regular file that can be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& where() const { return where_; }
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }

 private:
  std::string where_;
  int descriptor_;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace isochron
