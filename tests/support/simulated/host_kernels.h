// Device code that is compiled for the host and runs there, one block after another. The threads of a block
// run one after another, or alternate if they meet at barriers. The order of blocks and threads differs from
// launch to launch.
#pragma once

#include <link.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/base/error.h"
#include "support/simulated/host_library.h"
#include "support/simulated/race_checker.h"

namespace isochron {

class HostKernels {
 public:
  /// `check_races`: a race ends a run with an error. Storing the result of a function is detected if the
  /// result is a number, but not if it is a struct, because kernels store a copy of that. Throws kBadFormat
  /// with the compiler's message about `text`.
  explicit HostKernels(const std::string& text, bool check_races = false) {
    std::string source = kShim + with_shared_memory(text);
    const std::string opening = "extern \"C\" __global__ void ";
    for (size_t at = text.find(opening); at != std::string::npos;) {
      const size_t name = at + opening.size(), end = text.find('(', name);
      const size_t next = text.find(opening, end);
      const std::string function = text.substr(name, end - name), body = text.substr(end, next - end);
      const bool meet = body.find("__syncthreads") != std::string::npos ||
                        body.find("host_barrier") != std::string::npos ||
                        body.find("threads meet") != std::string::npos;
      functions_[function] = meet;
      source += "extern \"C\" void run_" + function +
                "(void* const* arguments, unsigned x, unsigned y, unsigned block, bool meet) { host::run(&" +
                function + ", arguments, x, y, block, meet); }\n" + "extern \"C\" size_t sizes_" + function +
                "(size_t* sizes) { return host::sizes(&" + function + ", sizes); }\n";
      at = next;
    }
    if (!check_races) {
      library_.emplace(source);
      return;
    }
    library_.emplace(source, "-DHOST_RACES -fsanitize=thread --param tsan-distinguish-volatile=1");
    checker_ = std::make_unique<RaceChecker>();
  }

  /// A call host_barrier(number), which `check_races` has for a barrier, does nothing then.
  void leave_out(size_t number) { *find<unsigned long>("host_left_out") = number; }

  /// The path of the library, and one line per kernel: its name, and 1 if the threads of a block meet.
  std::string listed() const {
    std::string text = library_->path().string() + "\n";
    for (const auto& [name, meet] : functions_) text += name + (meet ? " 1\n" : " 0\n");
    return text;
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
    if (checker_) {
      begin_launch();
      *find<Access>("host_access") = [](void* checker, const void* at, unsigned bytes, unsigned kind,
                                        unsigned block_of, unsigned thread, unsigned phase) {
        static_cast<RaceChecker*>(checker)->access(reinterpret_cast<uintptr_t>(at), bytes, kind, block_of,
                                                   thread, phase);
      };
      *find<void*>("host_checker") = checker_.get();
    }
    find<void(void* const*, unsigned, unsigned, unsigned, bool)>("run_" + function)(
        arguments.data(), grid[0], grid[1], block, functions_.at(function));
    if (checker_ && !checker_->found().empty()) fail(ErrorCode::kDevice, function, "{}", checker_->found());
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
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>
#define __global__
#define __device__
#define __shared__ static
#define __grid_constant__
#ifdef HOST_RACES
#define HOST_UNSEEN __attribute__((no_sanitize_thread))
#else
#define HOST_UNSEEN
#endif
namespace host {
// What memory the kernel's threads touch is told to who asks, but for their stacks.
static bool in_kernel = false;
static const char* stack_end = nullptr;
static unsigned phase = 0;
struct Extent { unsigned x = 0, y = 0, z = 0; };
static Extent thread, block, grid, size;
// What the threads of this block share and have come to.
static const void* shared[64];
static unsigned shared_count = 0;
template <typename... P, size_t... I>
void call(void (*kernel)(P...), void* const* arguments, std::index_sequence<I...>) { kernel(*static_cast<P*>(arguments[I])...); }
template <typename... P>
size_t sizes(void (*)(P...), size_t* sizes) { ((*sizes++ = sizeof(P)), ...); return sizeof...(P); }
#pragma GCC push_options
#pragma GCC optimize("O1")
static unsigned random = 1;
HOST_UNSEEN static unsigned random_below(unsigned end) {
  random = random * 1664525u + 1013904223u;
  return (random >> 8) % end;
}
// Each of so many, in an order of its own: with steps that have no factor in common with their count.
struct Order {
  size_t count, step, at;
  HOST_UNSEEN explicit Order(unsigned of) : count(of), at(random_below(of)) {
    do step = 1 + random_below(of);
    while (std::gcd(step, count) != 1);
  }
  HOST_UNSEEN unsigned next() { return static_cast<unsigned>(at = (at + step) % count); }
};
// Threads that meet: each has a stack of its own and runs until it waits, then the next one does. Later blocks use the
// stacks again. ucontext.h's own switch asks the system for the signal mask, which takes ten times as long as the rest.
struct Fiber { void* at[5]; bool done; char* stack; };
static const size_t stack_bytes = 64 << 10;
static Fiber* fibers = nullptr;
static unsigned* order = nullptr;
static unsigned fiber_count = 0;
static void* outside[5];
static std::function<void()> body;
// GCC wants it in another function than __builtin_setjmp.
HOST_UNSEEN __attribute__((noinline)) static void jump(void** to) { __builtin_longjmp(to, 1); }
HOST_UNSEEN __attribute__((noinline)) static void leave() {
  if (__builtin_setjmp(fibers[thread.x].at) == 0) jump(outside);
}
HOST_UNSEEN static void fiber_main() {
  for (;;) {
    in_kernel = true;
    body();
    in_kernel = false;
    fibers[thread.x].done = true;
    leave();
  }
}
HOST_UNSEEN __attribute__((noinline)) static void enter(Fiber& fiber) {
  if (__builtin_setjmp(outside) != 0) return;
  const bool first = fiber.stack == nullptr;
  if (first) fiber.stack = new char[stack_bytes];
  stack_end = fiber.stack + stack_bytes;
  if (!first) jump(fiber.at);
  ucontext_t begin;
  getcontext(&begin);
  begin.uc_stack = {fiber.stack, 0, stack_bytes};
  makecontext(&begin, fiber_main, 0);
  setcontext(&begin);
}
// Whether what the threads meet at puts all of the block's accesses in order, as a barrier does.
static bool in_order = true;
HOST_UNSEEN static void meet(bool at_a_barrier) {
  in_order = at_a_barrier;
  in_kernel = false;
  leave();
  in_kernel = true;
}
HOST_UNSEEN static void more_fibers(unsigned threads) {
  Fiber* const more = new Fiber[threads]();
  for (unsigned t = 0; t < fiber_count; ++t) more[t] = fibers[t];
  delete[] fibers;
  delete[] order;
  fibers = more;
  order = new unsigned[threads];
  fiber_count = threads;
}
static struct Freed {
  ~Freed() {
    for (unsigned t = 0; t < fiber_count; ++t) delete[] fibers[t].stack;
    delete[] fibers;
    delete[] order;
  }
} freed;
// In another order from barrier to barrier.
HOST_UNSEEN static void run_fibers(unsigned threads) {
  if (fiber_count < threads) more_fibers(threads);
  for (unsigned t = 0; t < threads; ++t) {
    order[t] = t;
    fibers[t].done = false;
  }
  in_order = true;
  for (unsigned left = threads; left > 0;) {
    if (in_order) ++phase;
    for (unsigned i = threads; i > 1; --i) {
      const unsigned other = random_below(i), before = order[i - 1];
      order[i - 1] = order[other];
      order[other] = before;
    }
    for (unsigned i = 0; i < threads; ++i) {
      const unsigned t = order[i];
      if (fibers[t].done) continue;
      thread = {t, 0, 0};
      enter(fibers[t]);
      left -= fibers[t].done;
    }
  }
}
#pragma GCC pop_options
template <typename... P>
HOST_UNSEEN void run(void (*kernel)(P...), void* const* arguments, unsigned x, unsigned y, unsigned threads, bool meet) {
  grid = {x, y, 1};
  size = {threads, 1, 1};
  body = [&] { call(kernel, arguments, std::index_sequence_for<P...>{}); };
  Order blocks(x * y);
  for (unsigned left = x * y; left > 0; --left) {
    const unsigned next = blocks.next();
    block = {next % x, next / x, 0};
    shared_count = 0;
    if (meet) {
      run_fibers(threads);
      continue;
    }
    ++phase;
    stack_end = static_cast<const char*>(__builtin_frame_address(0));
    Order of_threads(threads);
    for (unsigned t = 0; t < threads; ++t) {
      thread = {of_threads.next(), 0, 0};
      in_kernel = true;
      call(kernel, arguments, std::index_sequence_for<P...>{});
      in_kernel = false;
    }
  }
}
// What the tensor cores do: each lane of a warp gives words of a and b, and gets four elements of c += a b.
HOST_UNSEEN static void multiply_by_warp(float* c, const unsigned* a, const unsigned* b, unsigned each, float (*element)(unsigned, unsigned)) {
  static unsigned of_a[1024][4], of_b[1024][2];
  for (unsigned i = 0; i < 4; ++i) of_a[thread.x][i] = a[i];
  for (unsigned i = 0; i < 2; ++i) of_b[thread.x][i] = b[i];
  meet(false);
  const unsigned lane = thread.x % 32, warp = thread.x - lane;
  for (unsigned part = 0; part < 4; ++part) {
    const unsigned row = lane / 4, column = lane % 4 * 2 + part % 2;
    for (unsigned word = 0; word < 8; ++word) {
      const unsigned left = of_a[warp + row * 4 + word % 4][part / 2 + word / 4 * 2];
      const unsigned right = of_b[warp + column * 4 + word % 4][word / 4];
      for (unsigned e = 0; e < each; ++e) c[part] += element(left, e) * element(right, e);
    }
  }
  meet(false);
}
}
#ifdef HOST_RACES
extern "C" {
unsigned long host_left_out = -1ul;
HOST_UNSEEN static void host_barrier(unsigned long number) {
  if (number != host_left_out) host::meet(true);
}
void (*host_access)(void*, const void*, unsigned, unsigned, unsigned, unsigned, unsigned) = nullptr;
void* host_checker = nullptr;
// Kinds of access are those of RaceChecker.
HOST_UNSEEN static void touch(const void* at, unsigned bytes, unsigned kind) {
  if (!host::in_kernel || host_access == nullptr) return;
  const char* const address = static_cast<const char*>(at);
  if (address >= static_cast<const char*>(__builtin_frame_address(0)) && address < host::stack_end) return;
  host::in_kernel = false;
  host_access(host_checker, at, bytes, kind, host::block.y * host::grid.x + host::block.x, host::thread.x, host::phase);
  host::in_kernel = true;
}
#define HOST_TOUCH(bytes) \
  HOST_UNSEEN void __tsan_read##bytes(void* at) { touch(at, bytes, 0); } \
  HOST_UNSEEN void __tsan_write##bytes(void* at) { touch(at, bytes, 1); } \
  HOST_UNSEEN void __tsan_unaligned_read##bytes(void* at) { touch(at, bytes, 0); } \
  HOST_UNSEEN void __tsan_unaligned_write##bytes(void* at) { touch(at, bytes, 1); } \
  HOST_UNSEEN void __tsan_volatile_read##bytes(void* at) { touch(at, bytes, 2); } \
  HOST_UNSEEN void __tsan_volatile_write##bytes(void* at) { touch(at, bytes, 1); }
HOST_TOUCH(1) HOST_TOUCH(2) HOST_TOUCH(4) HOST_TOUCH(8) HOST_TOUCH(16)
HOST_UNSEEN void __tsan_read_range(void* at, unsigned long bytes) { touch(at, bytes, 0); }
HOST_UNSEEN void __tsan_write_range(void* at, unsigned long bytes) { touch(at, bytes, 1); }
HOST_UNSEEN void __tsan_init() {}
HOST_UNSEEN void __tsan_func_entry(void*) {}
HOST_UNSEEN void __tsan_func_exit() {}
HOST_UNSEEN void __tsan_vptr_update(void*, void*) {}
HOST_UNSEEN void __tsan_vptr_read(void*) {}
}
#endif
#define threadIdx host::thread
#define blockIdx host::block
#define gridDim host::grid
#define blockDim host::size
HOST_UNSEEN static void __syncthreads() { host::meet(true); }
static void __threadfence() {}
namespace host {
// What a block's threads share begins with bytes that make a number NaN. Where races are checked, reading them is one.
HOST_UNSEEN static void begin_shared(void* at, unsigned bytes) {
  for (unsigned i = 0; i < shared_count; ++i)
    if (shared[i] == at) return;
  if (shared_count == sizeof(shared) / sizeof(shared[0])) __builtin_trap();
  shared[shared_count++] = at;
#ifdef HOST_RACES
  touch(at, bytes, 4);
#else
  std::memset(at, 0xFF, bytes);
#endif
}
}
HOST_UNSEEN static unsigned atomicAdd(unsigned* to, unsigned more) {
#ifdef HOST_RACES
  touch(to, 4, 3);
#endif
  return std::exchange(*to, *to + more);
}
)";

  /// With a call behind each declaration of what a block's threads share.
  static std::string with_shared_memory(std::string text) {
    for (const std::string_view keyword : {"__shared__ ", "ISOCHRON_SHARED_MEMORY("}) {
      for (size_t at = 0; (at = text.find(keyword, at)) != std::string::npos;) {
        at += keyword.size();
        const std::string declared = text.substr(at, text.find(';', at) - at);
        if (declared.find('\n') != std::string::npos) continue;  // the macro
        const size_t end = declared.find(keyword.back() == '(' ? ',' : '[');
        const size_t begin = declared.rfind(' ', end) + 1;
        const std::string name = declared.substr(begin, end - begin);
        text.insert(at + declared.size() + 1, fmt::format(" host::begin_shared(&{0}, sizeof({0}));", name));
      }
    }
    return text;
  }
  template <typename F>
  F* find(const std::string& symbol) const {
    return library_->find<F>(symbol);
  }

  using Access = void (*)(void*, const void*, unsigned, unsigned, unsigned, unsigned, unsigned);
  /// Variables of the library are those that a block's threads share.
  void begin_launch() const {
    std::pair<uintptr_t, uintptr_t> range(UINTPTR_MAX, 0);
    Dl_info info{};
    dladdr(find<void*>("host_checker"), &info);
    struct Search {
      const void* base;
      std::pair<uintptr_t, uintptr_t>& range;
    } search{info.dli_fbase, range};
    dl_iterate_phdr(
        [](dl_phdr_info* library, size_t, void* asked) {
          auto& [base, found] = *static_cast<Search*>(asked);
          if (reinterpret_cast<const void*>(library->dlpi_addr) != base) return 0;
          for (int s = 0; s < library->dlpi_phnum; ++s) {
            const auto& segment = library->dlpi_phdr[s];
            if (segment.p_type != PT_LOAD) continue;
            found.first = std::min<uintptr_t>(found.first, library->dlpi_addr + segment.p_vaddr);
            found.second =
                std::max<uintptr_t>(found.second, library->dlpi_addr + segment.p_vaddr + segment.p_memsz);
          }
          return 1;
        },
        &search);
    checker_->begin(range);
  }

  std::map<std::string, bool> functions_;
  std::optional<HostLibrary> library_;
  std::unique_ptr<RaceChecker> checker_;
};

}  // namespace isochron
