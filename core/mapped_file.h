// MappedFile: a file's bytes as memory that the system fills as they are touched.
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
  /// Touching bytes that a file has lost kills the process, so readers ask before: throws kIo when the file
  /// has fewer bytes than when it was mapped. A file cut at the very moment of reading is beyond help.
  void require_whole() const;

 private:
  std::string where_;
  int descriptor_;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace isochron
