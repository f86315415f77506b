// A folder of a test's own, removed with all it holds.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "isochron/core/error.h"

namespace isochron {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "isochron-test-XXXXXX").string();
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

}  // namespace isochron
