// Marks the time during which another library works for us, so that its allocations are counted separately
// from ours.
#pragma once

#include <atomic>

namespace isochron {

namespace internal {
inline std::atomic<int> g_library_calls{0};
inline thread_local int t_library_calls = 0;
}  // namespace internal

/// Scope of one call into oneDNN or a similar library. Library worker threads count too, so the mark is
/// process-wide.
class LibraryCall {
 public:
  LibraryCall() { internal::g_library_calls.fetch_add(1, std::memory_order_relaxed); }
  ~LibraryCall() { internal::g_library_calls.fetch_sub(1, std::memory_order_relaxed); }
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
  /// Also true within a SingleThreadLibraryCall on this thread.
  static bool active() {
    return internal::g_library_calls.load(std::memory_order_relaxed) > 0 || internal::t_library_calls > 0;
  }
};

/// The same for a library that works only on the calling thread and on threads that it creates during the
/// call. Allocations on all other threads count as ours.
class SingleThreadLibraryCall {
 public:
  SingleThreadLibraryCall() { ++internal::t_library_calls; }
  ~SingleThreadLibraryCall() { --internal::t_library_calls; }
  SingleThreadLibraryCall(const SingleThreadLibraryCall&) = delete;
  SingleThreadLibraryCall& operator=(const SingleThreadLibraryCall&) = delete;
  static bool active() { return internal::t_library_calls > 0; }
};

}  // namespace isochron
