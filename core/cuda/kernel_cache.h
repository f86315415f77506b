// Compiled kernels that outlive the process: one file each in the user's cache folder
// (core/files/cache_folder.h), whose name depends on the text, the device and the compiler's version. A file
// that is incomplete or holds something else is replaced. Such a file, or a folder that can't be written,
// causes only a notice.
#pragma once

#include <filesystem>

#include "isochron/core/cuda/compiler.h"

namespace isochron::cuda {

class KernelCache final : public Compiler {
 public:
  /// The most files of all programs together; the least recently used ones are removed.
  static constexpr size_t kMaxFiles = 64;

  /// `folder`: empty for none. `compiler` must outlive it.
  KernelCache(Compiler& compiler, std::filesystem::path folder)
      : compiler_(compiler), folder_(std::move(folder)) {}

  int version() override { return compiler_.version(); }
  /// Like the compiler's. Errors in reading and writing files don't throw.
  std::vector<char> compile(const std::string& text, const std::string& name, int major, int minor,
                            bool device_runtime) override;

 private:
  Compiler& compiler_;
  const std::filesystem::path folder_;
};

}  // namespace isochron::cuda
