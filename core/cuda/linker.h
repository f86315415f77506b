// Links device code with libcudadevrt while the program runs, with nvJitLink, which is loaded at run time.
// Needs no device.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace isochron::cuda {

class Linker {
 public:
  /// Throws kUnsupported if nvJitLink or libcudadevrt.a is missing.
  Linker();
  ~Linker();
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  /// Links `cubin`, compiled as relocatable code for `arch`, such as "sm_90", with the functions that it
  /// calls. Throws kBadFormat with the linker's messages.
  std::vector<char> link(std::span<const char> cubin, const std::string& arch);

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
  std::string device_runtime_;  // the library's path
  std::mutex mutex_;
};

}  // namespace isochron::cuda
