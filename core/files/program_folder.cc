#include "isochron/core/files/program_folder.h"

namespace isochron {

namespace fs = std::filesystem;

fs::path program_folder() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

fs::path beside_program(const fs::path& folder) { return program_folder().parent_path() / folder; }

}  // namespace isochron
