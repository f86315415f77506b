// CUDA C++ text to a device's code while the program runs: NVRTC, loaded at run time, needs no device.
// Compiling takes some 0.1 to 1 s a text.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace isochron::cuda {

/// What texts are compiled with. Sums and products are fused where the text says so alone, as on the CPU.
inline constexpr const char* kCompileOptions[] = {"--std=c++17", "--fmad=false"};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// As 13000 for 13.0.
  virtual int version() = 0;
  /// A cubin for compute capability `major`.`minor`. `name` stands for the text in messages;
  /// `device_runtime`: the text calls functions of libcudadevrt, which is linked to it. Throws kUnsupported
  /// for a device that this compiler doesn't know and where that library is missing, kBadFormat with its
  /// messages for a text with errors.
  virtual std::vector<char> compile(const std::string& text, const std::string& name, int major, int minor,
                                    bool device_runtime) = 0;
};

/// That of this machine; one for the process. What it compiles is kept on disk (core/cuda/kernel_cache.h).
/// Throws kUnsupported where this was built without CUDA, and
/// where the library is missing.
Compiler& machine_compiler();

}  // namespace isochron::cuda
