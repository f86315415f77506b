// Process-wide counts of everything that could grow. Cheap enough to be always on; `observe` samples them.
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
  kSystemAllocations,  // blocks ever taken from the operating system or a device's driver by our allocators
  kBytesReserved,      // bytes held from the system by our allocators
  kBytesInUse,         // bytes handed out by our allocators
  kTapeEntries,        // entries alive in gradient tapes
  kThreads,            // threads started by the library and alive
  kDropped,            // events not recorded because a bounded log was full
  kWeightBytes,        // bytes of checkpoints and weights ever written
  kPipelineBytes,      // bytes held by input pipelines: buffers, caches, elements made ahead
  kHooks,              // callbacks, event receivers and observers of ops alive
  kOptimizerStates,    // optimizers that ever made their states
  kMemoryRetries,      // requests for memory ever refused, or served only after free memory was given back
  kHostCopies,         // tensors ever made by copying the program's numbers
  kHostCopyBytes,      // bytes of these copies
  kPlanSwitches,       // calls of captured functions ever made with a different plan than the previous call
  kPartialTraces,      // traces ever made for a batch that differs from the last one only in fewer rows
  kNodesMade,          // nodes ever added to a graph
  kNotFinite,  // NaN and infinity ever found where the program checked: in item(), in watched variables
  kDeviceBytesReserved,  // bytes held from devices by our allocators
  kDeviceBytesInUse,     // bytes of devices handed out by our allocators
  kTransferBytes,        // bytes of batches ever copied to devices
  kExposedCopyNs,        // ns that devices ever spent only waiting for these copies
  kEagerOps,             // kernels ever run by an op on its own, outside of a plan
  kCollectives,          // collective calls ever made
  kSentBytes,            // bytes ever sent to other ranks
  kCount
};
inline constexpr int kCounterCount = static_cast<int>(Counter::kCount);

/// Whether a counter is a total that only grows, rather than a present value.
bool is_total(Counter counter);
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

namespace internal {
inline constinit thread_local int64_t t_own_bytes = 0;
}
/// Bytes of eager tensors' buffers that this thread has allocated, minus those it has given back. Together
/// with kBytesInUse, this shows whether memory grows in this thread or in others.
inline void count_own_bytes(int64_t delta) { internal::t_own_bytes += delta; }
inline int64_t own_bytes() { return internal::t_own_bytes; }

/// A member that counts the objects that hold it.
template <Counter kCounter>
class Counted {
 public:
  Counted() { count(kCounter, 1); }
  Counted(const Counted&) : Counted() {}
  Counted& operator=(const Counted&) = default;
  ~Counted() { count(kCounter, -1); }
};

}  // namespace isochron
