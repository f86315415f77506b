#include "isochron/apps/allocation_counter.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "isochron/core/base/library_call.h"
#include "isochron/core/process/background_work.h"
#include "isochron/core/telemetry/sealed.h"

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
void counted(size_t bytes) {
  if (BackgroundWork::active()) return;
  if (LibraryCall::active()) {
    g_library.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  g_ours.fetch_add(1, std::memory_order_relaxed);
  note_made(Made::kAllocation, bytes);
  if (g_abort.load(std::memory_order_relaxed)) [[unlikely]] {
    g_abort = false;
    void* frames[32];
    backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
    abort();
  }
}

void made(Made what) {
  if (!LibraryCall::active()) note_made(what);
}

/// The function and argument of a thread that a library creates.
struct LibraryThread {
  void* (*run)(void*);
  void* argument;
};
/// Counts everything this thread allocates as the library's. An example is a driver's thread that polls ten
/// times a second.
void* run_library_thread(void* thread) {
  const LibraryThread of_library = *static_cast<LibraryThread*>(thread);
  const SingleThreadLibraryCall call;
  free(thread);
  return of_library.run(of_library.argument);
}

/// The next definition of `name` after this program's own, in the shared libraries.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// The mode argument of `open`, which is passed only if the call may create a file.
mode_t mode_of(int flags, va_list arguments) {
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return makes ? va_arg(arguments, mode_t) : 0;
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
  isochron::counted(size);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  isochron::counted(count * size);
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) noexcept {
  isochron::counted(size);
  return __libc_realloc(block, size);
}
void* memalign(size_t alignment, size_t size) noexcept {
  isochron::counted(size);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  isochron::counted(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, size_t alignment, size_t size) noexcept {
  isochron::counted(size);
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* result = __libc_memalign(alignment, size);
  if (!result) return ENOMEM;
  *block = result;
  return 0;
}

// Weak, because tests override these functions to make them fail (tests/support/failing_calls.cc).
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  static const auto real = isochron::next<decltype(pthread_create)>("pthread_create");
  isochron::made(isochron::Made::kThread);
  if (!isochron::SingleThreadLibraryCall::active()) return real(thread, attributes, run, argument);
  void* const of_library = __libc_malloc(sizeof(isochron::LibraryThread));
  if (of_library == nullptr) return EAGAIN;
  *static_cast<isochron::LibraryThread*>(of_library) = {run, argument};
  const int result = real(thread, attributes, isochron::run_library_thread, of_library);
  if (result != 0) free(of_library);
  return result;
}
[[gnu::weak]] int open(const char* path, int flags, ...) {
  static const auto real = isochron::next<decltype(open)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = isochron::mode_of(flags, arguments);
  va_end(arguments);
  isochron::made(isochron::Made::kFile);
  return real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  static const auto real = isochron::next<decltype(open64)>("open64");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = isochron::mode_of(flags, arguments);
  va_end(arguments);
  isochron::made(isochron::Made::kFile);
  return real(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  static const auto real = isochron::next<decltype(openat)>("openat");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = isochron::mode_of(flags, arguments);
  va_end(arguments);
  isochron::made(isochron::Made::kFile);
  return real(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  static const auto real = isochron::next<decltype(openat64)>("openat64");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = isochron::mode_of(flags, arguments);
  va_end(arguments);
  isochron::made(isochron::Made::kFile);
  return real(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  static const auto real = isochron::next<decltype(fopen)>("fopen");
  isochron::made(isochron::Made::kFile);
  return real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  static const auto real = isochron::next<decltype(fopen64)>("fopen64");
  isochron::made(isochron::Made::kFile);
  return real(path, mode);
}
DIR* opendir(const char* path) {
  static const auto real = isochron::next<decltype(opendir)>("opendir");
  isochron::made(isochron::Made::kFile);
  return real(path);
}
int socket(int domain, int type, int protocol) noexcept {
  static const auto real = isochron::next<decltype(socket)>("socket");
  isochron::made(isochron::Made::kFile);
  return real(domain, type, protocol);
}

}  // extern "C"
#endif
