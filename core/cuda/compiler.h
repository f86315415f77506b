// Compiles CUDA C++ text to device code while the program runs, with NVRTC, which is loaded at run time.
// Needs no device. Compiling takes some 0.1 to 1 s per text.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace isochron::cuda {

/// The options for compiling texts. Sums and products are fused only where the text says so, as on the CPU.
inline constexpr const char* kCompileOptions[] = {"--std=c++17", "--fmad=false"};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// For example, 13000 for 13.0.
  virtual int version() = 0;
  /// Returns a cubin for compute capability `major`.`minor`. Messages call the text `name`. `device_runtime`:
  /// the text calls functions of libcudadevrt, which is linked to it. Throws kUnsupported if this compiler
  /// doesn't know the device or if that library is missing, and kBadFormat with the compiler's messages if
  /// the text has errors.
  virtual std::vector<char> compile(const std::string& text, const std::string& name, int major, int minor,
                                    bool device_runtime) = 0;
};

/// The compiler of this machine; one per process. The code that it compiles is kept on disk
/// (core/cuda/kernel_cache.h). Throws kUnsupported if this was built without CUDA or if the library is
/// missing.
Compiler& machine_compiler();

}  // namespace isochron::cuda
