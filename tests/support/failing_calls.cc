#include "support/failing_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

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

std::mutex g_mutex;
std::vector<std::string> g_lasting;

void note(std::string call) {
  if (!g_counting.load()) return;
  const std::lock_guard lock(g_mutex);
  g_lasting.push_back(std::move(call));
}

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  return {path.data(), length > 0 ? static_cast<size_t>(length) : 0};
}

}  // namespace

FailingCalls::FailingCalls(int64_t failing, int error) {
  g_made = 0;
  g_failing = failing;
  g_error = error;
  {
    const std::lock_guard lock(g_mutex);
    g_lasting.clear();
  }
  g_counting = true;
}
FailingCalls::~FailingCalls() { g_counting = false; }
int64_t FailingCalls::made() { return g_made; }
std::vector<std::string> FailingCalls::synced() {
  const std::lock_guard lock(g_mutex);
  return g_lasting;
}

}  // namespace isochron

// The system's own functions are called by number, so that they needn't be looked up.
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
  const auto result = static_cast<int>(syscall(SYS_fsync, descriptor));
  if (result == 0) isochron::note("sync " + isochron::path_of(descriptor));
  return result;
}
int rename(const char* from, const char* to) noexcept {
  if (isochron::fails()) return -1;
  const auto result = static_cast<int>(syscall(SYS_rename, from, to));
  if (result == 0) isochron::note(std::string("rename ") + from + " " + to);
  return result;
}

}  // extern "C"
