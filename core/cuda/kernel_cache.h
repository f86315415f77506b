// Compiled kernels that outlive the process: a file each in the user's cache folder
// (core/files/cache_folder.h), under a name that depends on the text, the device and the compiler's version.
// A file that isn't whole, or of something else, counts for nothing and is replaced; a folder that can't be
// written costs a notice.
#pragma once

#include <filesystem>

#include "isochron/core/cuda/compiler.h"

namespace isochron::cuda {

class KernelCache final : public Compiler {
 public:
  /// Files of all programs together; the ones longest unused go.
  static constexpr size_t kMostFiles = 64;

  /// `folder`: empty for none. `compiler` must outlive it.
  KernelCache(Compiler& compiler, std::filesystem::path folder)
      : compiler_(compiler), folder_(std::move(folder)) {}

  int version() override { return compiler_.version(); }
  /// As the compiler's. Reading and writing files throws nothing.
  std::vector<char> compile(const std::string& text, const std::string& name, int major, int minor,
                            bool device_runtime) override;

 private:
  Compiler& compiler_;
  const std::filesystem::path folder_;
};

}  // namespace isochron::cuda
