// Device code compiled for the host and run there, a block after the other: its threads in turn where they
// don't meet, and all at once where they do.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "isochron/core/error.h"
#include "support/temp_folder.h"

namespace isochron {

class HostKernels {
 public:
  /// `text` with kernels whose parameters are all pointers. Throws kBadFormat with what the compiler says.
  HostKernels(const std::string& text, const std::vector<std::string>& functions) {
    std::string source = kShim + text;
    for (const std::string& function : functions) {
      source += "extern \"C\" void run_" + function +
                "(void** arguments, unsigned x, unsigned y, unsigned block, bool meet) { host::run(&" +
                function + ", arguments, x, y, block, meet); }\n";
    }
    write_quickly(folder_ / "kernels.cc", source);
    const std::string path = (folder_ / "kernels.so").string();
    const std::string command = std::string(ISOCHRON_CXX) + " -std=c++20 -O1 -w -shared -fPIC -pthread -o " +
                                path + " " + (folder_ / "kernels.cc").string() + " 2> " +
                                (folder_ / "errors").string();
    if (std::system(command.c_str()) != 0) {
      std::ifstream errors(folder_ / "errors");
      fail(ErrorCode::kBadFormat, "host kernels", "{}",
           std::string(std::istreambuf_iterator<char>(errors), std::istreambuf_iterator<char>())
               .substr(0, 2000));
    }
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require(library_ != nullptr, ErrorCode::kIo, "host kernels", "{}", dlerror());
  }
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;
  ~HostKernels() {
    if (library_ != nullptr) dlclose(library_);
  }

  /// `meet`: its threads wait for each other.
  void run(const std::string& function, std::array<unsigned, 2> grid, unsigned block,
           std::vector<void*> arguments, bool meet) const {
    using Run = void(void**, unsigned, unsigned, unsigned, bool);
    auto* const found = reinterpret_cast<Run*>(dlsym(library_, ("run_" + function).c_str()));
    require(found != nullptr, ErrorCode::kInvalidArgument, "host kernels", "no {}", function);
    found(arguments.data(), grid[0], grid[1], block, meet);
  }

 private:
  static constexpr const char* kShim = R"(
#include <barrier>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>
#define __global__
#define __shared__ static
namespace host {
struct Extent { unsigned x = 0, y = 0, z = 0; };
inline thread_local Extent thread;
inline Extent block, grid, size;
inline std::barrier<>* meeting = nullptr;
template <typename... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) { kernel(static_cast<P>(arguments[I])...); }
template <typename... P>
void run(void (*kernel)(P...), void** arguments, unsigned x, unsigned y, unsigned threads, bool meet) {
  grid = {x, y, 1};
  size = {threads, 1, 1};
  const auto each = [&](unsigned t) { thread = {t, 0, 0}; call(kernel, arguments, std::index_sequence_for<P...>{}); };
  for (block.y = 0; block.y < y; ++block.y) {
    for (block.x = 0; block.x < x; ++block.x) {
      if (!meet) {
        for (unsigned t = 0; t < threads; ++t) each(t);
        continue;
      }
      std::barrier<> all(threads);
      meeting = &all;
      std::vector<std::thread> workers;
      for (unsigned t = 0; t < threads; ++t) workers.emplace_back(each, t);
      for (std::thread& worker : workers) worker.join();
    }
  }
}
}
#define threadIdx host::thread
#define blockIdx host::block
#define gridDim host::grid
#define blockDim host::size
static void __syncthreads() { host::meeting->arrive_and_wait(); }
)";

  TempFolder folder_;
  void* library_ = nullptr;
};

}  // namespace isochron
