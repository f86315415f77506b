// Device code that calls libcudadevrt, linked to it while the program runs: nvJitLink, loaded at run time,
// needs no device.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace isochron::cuda {

class Linker {
 public:
  /// Throws kUnsupported where nvJitLink or libcudadevrt.a is missing.
  Linker();
  ~Linker();
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  /// `cubin`, compiled as relocatable code for "sm_90", with what it calls. Throws kBadFormat with the
  /// linker's messages.
  std::vector<char> link(std::span<const char> cubin, const std::string& arch);

 private:
  struct Calls;
  std::unique_ptr<Calls> calls_;
  std::string device_runtime_;  // the library's path
  std::mutex mutex_;
};

}  // namespace isochron::cuda
