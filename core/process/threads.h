// The compute threads: how many, and the one way to run a loop on them.
// libgomp keeps one pool per calling thread and rebuilds it when a team's size changes, so a region runs on
// either one thread or all `compute_threads()`, never on a number in between.
#pragma once

#include <cstdint>
#include <type_traits>

namespace isochron {

/// Threads a large kernel uses. Default: the cores this process may run on (affinity, cgroup quota and
/// OMP_THREAD_LIMIT respected), at most 64; `ISOCHRON_THREADS` overrides it. 1 if there is no full_team().
int compute_threads();
inline constexpr int kMaxComputeThreads = 256;
/// Sets the number of compute threads for plans made afterwards. Throws kInvalidArgument outside [1,
/// kMaxComputeThreads], or beyond OMP_THREAD_LIMIT.
void set_compute_threads(int threads);

/// Whether a parallel region that this thread opens gets all the threads it asks for: false within another
/// region, and if OMP_MAX_ACTIVE_LEVELS is 0. As a side effect, disables OpenMP's dynamic teams for this
/// thread.
bool full_team();

/// Turns on flush-to-zero and denormals-are-zero for the calling thread (subnormals cost up to 100x). Every
/// op does so on the threads it uses, eager or captured, so that results don't depend on which threads
/// compute them.
void flush_subnormals_to_zero();
bool subnormals_flushed();

/// How long thread `id` of this process (gettid) has waited for a core while it could have run, in ns since
/// its start; 0 if the system doesn't report it.
int64_t core_wait_ns(int id);

/// The number of parallel loops that this thread has started on more than one thread. Shows whether a program
/// uses the thread team.
int64_t parallel_loops_begun();

namespace internal {
using RangeFunction = void (*)(void* context, int64_t begin, int64_t end);
void parallel_ranges(int threads, int64_t count, RangeFunction function, void* context);
}  // namespace internal

/// Splits [0, count) into one contiguous range per thread and runs `body(begin, end)` on each. `threads` is 1
/// (runs in place, no region) or `compute_threads()`. The split depends only on `count` and `threads`. `body`
/// must not throw.
template <typename Body>
void parallel_for(int threads, int64_t count, Body&& body) {
  if (threads <= 1) {
    body(int64_t{0}, count);
    return;
  }
  using B = std::remove_reference_t<Body>;
  internal::parallel_ranges(
      threads, count,
      [](void* context, int64_t begin, int64_t end) { (*static_cast<B*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Calls body(t) for each t in [0, threads), each on its own thread; a team smaller than requested runs the
/// remaining calls one after another.
template <typename Body>
void each_thread(int threads, Body&& body) {
  parallel_for(threads, threads, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) body(t);
  });
}

}  // namespace isochron
