#include "isochron/apps/allocation_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "isochron/core/library_call.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define ISOCHRON_COUNT_ALLOCATIONS 0
#else
#define ISOCHRON_COUNT_ALLOCATIONS 1
#endif

namespace isochron::apps {
namespace {

std::atomic<int64_t> g_ours{0};
std::atomic<int64_t> g_library{0};

}  // namespace

bool allocations_counted() { return ISOCHRON_COUNT_ALLOCATIONS != 0; }
int64_t heap_allocations() { return g_ours.load(std::memory_order_relaxed); }
int64_t library_allocations() { return g_library.load(std::memory_order_relaxed); }

#if ISOCHRON_COUNT_ALLOCATIONS
namespace {

void count_one() { (LibraryCall::active() ? g_library : g_ours).fetch_add(1, std::memory_order_relaxed); }

}  // namespace
#endif

}  // namespace isochron::apps

#if ISOCHRON_COUNT_ALLOCATIONS
// glibc's own entry points behind the public names.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  isochron::apps::count_one();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  isochron::apps::count_one();
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  isochron::apps::count_one();
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) {
  isochron::apps::count_one();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  isochron::apps::count_one();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) {
  isochron::apps::count_one();
  *block = __libc_memalign(alignment, size);
  return *block ? 0 : ENOMEM;
}
}
#endif
