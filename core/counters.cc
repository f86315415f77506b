#include "isochron/core/counters.h"

namespace isochron {
namespace internal {
std::array<std::atomic<int64_t>, kCounterCount> g_counters{};
}

std::string_view counter_name(Counter counter) {
  constexpr std::string_view kNames[kCounterCount] = {
      "live_tensors", "graph_nodes",  "plans",   "traces",  "system_allocations", "bytes_reserved",
      "bytes_in_use", "tape_entries", "threads", "dropped", "weight_bytes"};
  return kNames[static_cast<int>(counter)];
}

}  // namespace isochron
