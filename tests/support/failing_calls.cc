#include "support/failing_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace isochron {
namespace {

std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_made{0};
std::atomic<int64_t> g_failing{0};
std::atomic<int> g_error{0};

bool fails() {
  if (!g_counting.load() || ++g_made != g_failing.load()) return false;
  errno = g_error.load();
  return true;
}

}  // namespace

FailingCalls::FailingCalls(int64_t failing, int error) {
  g_made = 0;
  g_failing = failing;
  g_error = error;
  g_counting = true;
}
FailingCalls::~FailingCalls() { g_counting = false; }
int64_t FailingCalls::made() { return g_made; }

}  // namespace isochron

// The system's own are reached by number, so that no look-up of theirs is needed.
extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = static_cast<mode_t>(va_arg(arguments, int));
    va_end(arguments);
    if (isochron::fails()) return -1;
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (descriptor > STDERR_FILENO && isochron::fails()) return -1;
  return syscall(SYS_write, descriptor, bytes, size);
}
int fsync(int descriptor) {
  if (isochron::fails()) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}
int rename(const char* from, const char* to) noexcept {
  if (isochron::fails()) return -1;
  return static_cast<int>(syscall(SYS_rename, from, to));
}

}  // extern "C"
