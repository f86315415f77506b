// A folder for one test, removed with all its content.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "isochron/core/base/error.h"

namespace isochron {

class TempFolder {
 public:
  explicit TempFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string pattern = (parent / "isochron-test-XXXXXX").string();
    require(mkdtemp(pattern.data()) != nullptr, ErrorCode::kIo, pattern, "cannot be made");
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Replaces the file at `path`. Unlike the library, doesn't wait for the disk: tests write many files.
inline void write_quickly(const std::filesystem::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  require(!file.fail(), ErrorCode::kIo, path.string(), "cannot be written");
}

}  // namespace isochron
