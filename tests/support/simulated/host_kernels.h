// Device code compiled for the host and run there, a block after the other and its threads in turn, where
// they meet by turns.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/base/error.h"
#include "support/simulated/host_library.h"

namespace isochron {

class HostKernels {
 public:
  /// Throws kBadFormat with what the compiler says of `text`.
  explicit HostKernels(const std::string& text) {
    std::string source = kShim + text;
    const std::string opening = "extern \"C\" __global__ void ";
    for (size_t at = text.find(opening); at != std::string::npos;) {
      const size_t name = at + opening.size(), end = text.find('(', name);
      const size_t next = text.find(opening, end);
      const std::string function = text.substr(name, end - name), body = text.substr(end, next - end);
      const bool meet =
          body.find("__syncthreads") != std::string::npos || body.find("threads meet") != std::string::npos;
      functions_[function] = meet;
      source += "extern \"C\" void run_" + function +
                "(void* const* arguments, unsigned x, unsigned y, unsigned block, bool meet) { host::run(&" +
                function + ", arguments, x, y, block, meet); }\n" + "extern \"C\" size_t sizes_" + function +
                "(size_t* sizes) { return host::sizes(&" + function + ", sizes); }\n";
      at = next;
    }
    library_.emplace(source);
  }

  /// By name; whether the threads of a block meet.
  const std::map<std::string, bool>& functions() const { return functions_; }
  std::vector<size_t> argument_bytes(const std::string& function) const {
    std::vector<size_t> sizes(4096 / sizeof(void*));  // more parameters no kernel has
    sizes.resize(find<size_t(size_t*)>("sizes_" + function)(sizes.data()));
    return sizes;
  }
  /// `arguments`: the address of each.
  void run(const std::string& function, std::array<unsigned, 2> grid, unsigned block,
           std::span<void* const> arguments) const {
    find<void(void* const*, unsigned, unsigned, unsigned, bool)>("run_" + function)(
        arguments.data(), grid[0], grid[1], block, functions_.at(function));
    char* const fault = find<char>("host_fault");
    if (*fault == 0) return;
    const std::string text = fault;
    *fault = 0;
    fail(ErrorCode::kDeviceLost, "cuda", "{}", text);
  }

 private:
  static constexpr const char* kShim = R"(
#include <ucontext.h>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>
#define __global__
#define __device__
#define __shared__ static
namespace host {
struct Extent { unsigned x = 0, y = 0, z = 0; };
static Extent thread, block, grid, size;
template <typename... P, size_t... I>
void call(void (*kernel)(P...), void* const* arguments, std::index_sequence<I...>) { kernel(*static_cast<P*>(arguments[I])...); }
template <typename... P>
size_t sizes(void (*)(P...), size_t* sizes) { ((*sizes++ = sizeof(P)), ...); return sizeof...(P); }
// Threads that meet: each has a stack of its own and runs until it waits, then the next one does.
struct Fiber { ucontext_t context; bool done; std::vector<char> stack; };
static std::vector<Fiber> fibers;
static ucontext_t outside;
static std::function<void()> body;
static void fiber_main() { body(); fibers[thread.x].done = true; }
static void meet() { swapcontext(&fibers[thread.x].context, &outside); }
static void run_fibers(unsigned threads) {
  if (fibers.size() < threads) fibers.resize(threads);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = fibers[t];
    fiber.stack.resize(64 << 10);
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack.data(), 0, fiber.stack.size()};
    fiber.context.uc_link = &outside;
    makecontext(&fiber.context, fiber_main, 0);
  }
  for (unsigned left = threads; left > 0;) {
    for (unsigned t = 0; t < threads; ++t) {
      if (fibers[t].done) continue;
      thread = {t, 0, 0};
      swapcontext(&outside, &fibers[t].context);
      left -= fibers[t].done;
    }
  }
}
template <typename... P>
void run(void (*kernel)(P...), void* const* arguments, unsigned x, unsigned y, unsigned threads, bool meet) {
  grid = {x, y, 1};
  size = {threads, 1, 1};
  body = [&] { call(kernel, arguments, std::index_sequence_for<P...>{}); };
  for (block.y = 0; block.y < y; ++block.y) {
    for (block.x = 0; block.x < x; ++block.x) {
      if (meet) {
        run_fibers(threads);
      } else {
        for (unsigned t = 0; t < threads; ++t) { thread = {t, 0, 0}; call(kernel, arguments, std::index_sequence_for<P...>{}); }
      }
    }
  }
}
}
#define threadIdx host::thread
#define blockIdx host::block
#define gridDim host::grid
#define blockDim host::size
static void __syncthreads() { host::meet(); }
static void __threadfence() {}
static unsigned atomicAdd(unsigned* to, unsigned more) { return std::exchange(*to, *to + more); }
)";

  template <typename F>
  F* find(const std::string& symbol) const {
    return library_->find<F>(symbol);
  }

  std::map<std::string, bool> functions_;
  std::optional<HostLibrary> library_;
};

}  // namespace isochron
