#include "isochron/memory/allocators/allocator.h"

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"

namespace isochron {

void AllocatorStats::on_allocate(size_t requested, size_t block) {
  in_use_bytes += block;
  requested_bytes += requested;
  peak_in_use_bytes = std::max(peak_in_use_bytes, in_use_bytes);
  ++live_allocations;
  ++total_allocations;
}

void AllocatorStats::on_free(size_t requested, size_t block) {
  in_use_bytes -= block;
  requested_bytes -= requested;
  --live_allocations;
}

void AllocatorStats::retry() {
  ++retries;
  count(Counter::kMemoryRetries, 1);
}

std::string describe_usage(const std::vector<TagUsage>& usage) {
  constexpr size_t kShown = 4;
  if (usage.empty()) return "no tags kept";
  std::string text;
  for (size_t i = 0; i < usage.size() && i < kShown; ++i) {
    text += fmt::format("{}'{}' {} in {}", i ? ", " : "", usage[i].tag, usage[i].bytes, usage[i].allocations);
  }
  return usage.size() > kShown ? text + fmt::format(", {} more tags", usage.size() - kShown) : text;
}

void throw_out_of_memory(std::string_view where, size_t bytes, std::string_view tag, size_t limit_bytes,
                         const Allocator& allocator) {
  count(Counter::kMemoryRetries, 1);
  const AllocatorStats stats = allocator.stats();
  fail(ErrorCode::kOutOfMemory, where,
       "no memory for {} bytes of '{}': limit {}, in use {} of {} reserved (by tag: {}), largest free block "
       "{}; "
       "use smaller batches, free tensors or raise the limit",
       bytes, tag, limit_bytes == kNoByteLimit ? "none" : fmt::format("{} bytes", limit_bytes),
       stats.in_use_bytes, stats.reserved_bytes, describe_usage(allocator.usage_by_tag()),
       stats.largest_free_bytes);
}

}  // namespace isochron
