// Process-wide counts of everything that could grow. Cheap enough to be always on; `observe` reads them per
// window.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace isochron {

enum class Counter : int {
  kLiveTensors,        // TensorImpl objects alive
  kGraphNodes,         // nodes of all graphs alive
  kPlans,              // executables alive
  kTraces,             // captures ever traced
  kSystemAllocations,  // blocks ever taken from the operating system's allocator by our allocators
  kBytesReserved,      // bytes held from the system by our allocators
  kBytesInUse,         // bytes handed out by our allocators
  kTapeEntries,        // entries alive in gradient tapes
  kThreads,            // threads started by the library and alive
  kDropped,            // events not recorded because a bounded log was full
  kWeightBytes,        // bytes of checkpoints and weights ever written
  kCount
};
inline constexpr int kCounterCount = static_cast<int>(Counter::kCount);

/// Short stable name, e.g. "live_tensors"; used in JSON and CSV.
std::string_view counter_name(Counter counter);

namespace internal {
extern std::array<std::atomic<int64_t>, kCounterCount> g_counters;
}

inline void count(Counter counter, int64_t delta) {
  internal::g_counters[static_cast<int>(counter)].fetch_add(delta, std::memory_order_relaxed);
}
inline int64_t counter_value(Counter counter) {
  return internal::g_counters[static_cast<int>(counter)].load(std::memory_order_relaxed);
}

}  // namespace isochron
