#include "isochron/core/telemetry/counters.h"

namespace isochron {
namespace internal {
std::array<std::atomic<int64_t>, kCounterCount> g_counters{};
}

std::string_view counter_name(Counter counter) {
  constexpr std::string_view kNames[kCounterCount] = {"live_tensors",
                                                      "graph_nodes",
                                                      "plans",
                                                      "traces",
                                                      "system_allocations",
                                                      "bytes_reserved",
                                                      "bytes_in_use",
                                                      "tape_entries",
                                                      "threads",
                                                      "dropped",
                                                      "weight_bytes",
                                                      "pipeline_bytes",
                                                      "hooks",
                                                      "optimizer_states",
                                                      "memory_retries",
                                                      "host_copies",
                                                      "host_copy_bytes",
                                                      "plan_switches",
                                                      "partial_traces",
                                                      "nodes_made",
                                                      "not_finite",
                                                      "device_bytes_reserved",
                                                      "device_bytes_in_use",
                                                      "transfer_bytes",
                                                      "exposed_copy_ns",
                                                      "eager_ops",
                                                      "collectives",
                                                      "sent_bytes"};
  return kNames[static_cast<int>(counter)];
}

bool is_total(Counter counter) {
  switch (counter) {
    case Counter::kLiveTensors:
    case Counter::kGraphNodes:
    case Counter::kPlans:
    case Counter::kBytesReserved:
    case Counter::kBytesInUse:
    case Counter::kTapeEntries:
    case Counter::kThreads:
    case Counter::kPipelineBytes:
    case Counter::kHooks:
    case Counter::kDeviceBytesReserved:
    case Counter::kDeviceBytesInUse:
      return false;
    default:
      return true;
  }
}

}  // namespace isochron
