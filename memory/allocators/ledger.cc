#include "isochron/memory/allocators/ledger.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "isochron/memory/allocators/system_memory.h"

namespace isochron {
namespace {

struct Allocators {
  std::mutex mutex;
  std::vector<const Allocator*> alive;
};

Allocators& allocators() {
  // Never destroyed, because allocators in static variables may be destroyed later.
  static auto* instance = new Allocators;
  return *instance;
}

}  // namespace

size_t Ledger::bytes_of(std::string_view tag) const {
  const auto found = std::ranges::find(tags, tag, &TagUsage::tag);
  return found == tags.end() ? 0 : found->bytes;
}

Ledger read_ledger() {
  Ledger ledger;
  std::map<std::string, TagUsage, std::less<>> tags;
  const auto add = [&tags](const std::string& tag, size_t bytes, int64_t allocations) {
    TagUsage& sum = tags[tag];
    sum.bytes += bytes;
    sum.allocations += allocations;
  };
  {
    const std::lock_guard lock(allocators().mutex);
    for (const Allocator* allocator : allocators().alive) {
      const AllocatorStats stats = allocator->stats();
      ledger.in_use_bytes += stats.in_use_bytes;
      ledger.reserved_bytes += stats.reserved_bytes;
      ledger.live_allocations += stats.live_allocations;
      ++ledger.allocators;
      const std::vector<TagUsage> usage = allocator->usage_by_tag();
      for (const TagUsage& tag : usage) add(tag.tag, tag.bytes, tag.allocations);
      if (usage.empty() && stats.live_allocations > 0) {
        add("untagged", stats.requested_bytes, stats.live_allocations);
      }
    }
    ledger.mapped_bytes = system_mapped_bytes();
  }
  for (const auto& [tag, usage] : tags) ledger.tags.push_back({tag, usage.bytes, usage.allocations});
  std::ranges::stable_sort(ledger.tags, std::ranges::greater(), &TagUsage::bytes);
  return ledger;
}

namespace internal {

void enter_ledger(const Allocator& allocator) {
  const std::lock_guard lock(allocators().mutex);
  allocators().alive.push_back(&allocator);
}

void leave_ledger(const Allocator& allocator) noexcept {
  const std::lock_guard lock(allocators().mutex);
  std::erase(allocators().alive, &allocator);
}

}  // namespace internal
}  // namespace isochron
