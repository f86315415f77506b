#include "isochron/core/process/team.h"

#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/sealed.h"

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* place);
extern "C" void __tsan_release(void* place);
#define ISOCHRON_NOT_INSTRUMENTED __attribute__((noinline, no_sanitize("thread")))
#else
#define ISOCHRON_NOT_INSTRUMENTED
#endif

namespace isochron {
namespace {

thread_local int t_team = 1;

// Tell the thread sanitizer, which doesn't see libgomp's barriers, that everything before
// happens_before(place) in one thread precedes everything after happens_after(place) in another.
#ifdef __SANITIZE_THREAD__
void happens_before(void* place) { __tsan_release(place); }
void happens_after(void* place) { __tsan_acquire(place); }
#else
void happens_before(void*) {}
void happens_after(void*) {}
#endif

/// A gate that threads wait at until all of them are there.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
};

void* wait_at(void* gate) {
  auto& at = *static_cast<Gate*>(gate);
  std::unique_lock lock(at.mutex);
  at.changed.wait(lock, [&at] { return at.open; });
  return nullptr;
}

/// Tests whether the system provides `count` threads at the same time: creates them and lets them end.
/// Returns 0, or the error number if the system refuses one. The C library keeps their stacks for the threads
/// that are created next.
int try_threads(int count) {
  Gate gate;
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  size_t made = 0;
  int error = 0;
  while (made < threads.size() && error == 0) {
    error = ::pthread_create(&threads[made], nullptr, wait_at, &gate);
    if (error == 0) ++made;
  }
  {
    const std::lock_guard lock(gate.mutex);
    gate.open = true;
  }
  gate.changed.notify_all();
  for (size_t i = 0; i < made; ++i) ::pthread_join(threads[i], nullptr);
  return error;
}

}  // namespace

void make_team(int threads) {
  if (threads == t_team || threads <= 1 || omp_in_parallel()) return;
  const UnsealedScope made_once;
  if (const int error = try_threads(threads - 1); error != 0) {
    fail(ErrorCode::kOutOfMemory, "threads",
         "the system has no room for {} compute threads: {}; ask for fewer with --threads or "
         "ISOCHRON_THREADS, "
         "or raise the limits of memory or threads (ulimit -v, ulimit -u)",
         threads, std::strerror(error));
  }
  run_on_team(
      threads, [](void*) {}, nullptr);
  t_team = threads;
}

// Not instrumented, because each thread reads the arguments that the compiler passes to it before it reaches
// happens_after.
ISOCHRON_NOT_INSTRUMENTED void run_on_team(int threads, void (*body)(void*), void* context) {
  char begin = 0, end = 0;
  happens_before(&begin);
#pragma omp parallel num_threads(threads)
  {
    happens_after(&begin);
    body(context);
    happens_before(&end);
  }
  happens_after(&end);
}

void require_address_space(size_t bytes, std::string_view where) {
  void* const place = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place != MAP_FAILED) {
    ::munmap(place, bytes);
    return;
  }
  fail(ErrorCode::kOutOfMemory, where,
       "less than {} MB of address space are left, which its library may need: {}; take a smaller model or "
       "batch, "
       "or raise the limit (ulimit -v)",
       bytes >> 20, std::strerror(errno));
}

}  // namespace isochron
