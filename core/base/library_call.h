// Marks the time during which another library computes for us, so that allocations it makes inside its own
// calls are counted apart from ours.
#pragma once

#include <atomic>

namespace isochron {

namespace internal {
inline std::atomic<int> g_library_calls{0};
}

/// Scope of one call into oneDNN or the like. Library worker threads count too, so the mark is process-wide.
class LibraryCall {
 public:
  LibraryCall() { internal::g_library_calls.fetch_add(1, std::memory_order_relaxed); }
  ~LibraryCall() { internal::g_library_calls.fetch_sub(1, std::memory_order_relaxed); }
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
  static bool active() { return internal::g_library_calls.load(std::memory_order_relaxed) > 0; }
};

}  // namespace isochron
