#include "isochron/apps/allocation_counter.h"

#include <errno.h>
#include <execinfo.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "isochron/core/background_work.h"
#include "isochron/core/library_call.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define ISOCHRON_COUNT_ALLOCATIONS 0
#else
#define ISOCHRON_COUNT_ALLOCATIONS 1
#endif

namespace isochron {
namespace {

std::atomic<int64_t> g_ours{0};
std::atomic<int64_t> g_library{0};
std::atomic<bool> g_abort{false};

#if ISOCHRON_COUNT_ALLOCATIONS
void counted() {
  if (BackgroundWork::active()) return;
  if (LibraryCall::active()) {
    g_library.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  g_ours.fetch_add(1, std::memory_order_relaxed);
  if (g_abort.load(std::memory_order_relaxed)) [[unlikely]] {
    g_abort = false;
    void* frames[32];
    backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
    abort();
  }
}
#endif

}  // namespace

bool allocations_counted() { return ISOCHRON_COUNT_ALLOCATIONS != 0; }
int64_t heap_allocations() { return g_ours.load(std::memory_order_relaxed); }
int64_t library_allocations() { return g_library.load(std::memory_order_relaxed); }
void abort_on_allocation(bool on) { g_abort = on; }

}  // namespace isochron

#if ISOCHRON_COUNT_ALLOCATIONS
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) noexcept {
  isochron::counted();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  isochron::counted();
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) noexcept {
  isochron::counted();
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) noexcept {
  isochron::counted();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  isochron::counted();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  isochron::counted();
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* result = __libc_memalign(alignment, size);
  if (!result) return ENOMEM;
  *block = result;
  return 0;
}

}  // extern "C"
#endif
