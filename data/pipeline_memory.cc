#include "isochron/data/pipeline_memory.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>
#include <string>

#include "isochron/core/error.h"
#include "isochron/memory/pool.h"

namespace isochron::data {
namespace {

constexpr size_t kShareOfFree = 4;

std::optional<size_t> number_in(const char* path) {
  std::ifstream file(path);
  size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // missing, or "max"
}

/// What a control group with a limit has left.
std::optional<size_t> left(const char* limit_path, const char* used_path) {
  const auto limit = number_in(limit_path), used = number_in(used_path);
  if (!limit || !used) return std::nullopt;
  return *limit - std::min(*limit, *used);
}

class BudgetAllocator final : public Allocator {
 public:
  explicit BudgetAllocator(Allocator& upstream)
      : upstream_(upstream), budget_bytes_(available_memory_bytes() / kShareOfFree) {}

  void* allocate(size_t bytes, std::string_view tag) override {
    const size_t held = in_use_bytes_.fetch_add(bytes) + bytes;
    const size_t budget = budget_bytes_;
    if (held > budget || held < bytes) {
      in_use_bytes_ -= bytes;
      fail(ErrorCode::kOutOfMemory, "dataset",
           "{} bytes for '{}' would exceed the budget of {} bytes for input pipelines, of which {} are in "
           "use; "
           "prefetch, shuffle or cache less, or raise it with data::set_memory_budget",
           bytes, tag, budget, held - bytes);
    }
    try {
      return upstream_.allocate(bytes, tag);
    } catch (...) {
      in_use_bytes_ -= bytes;
      throw;
    }
  }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    upstream_.deallocate(pointer, bytes);
    in_use_bytes_ -= bytes;
  }
  size_t trim() override { return upstream_.trim(); }
  AllocatorStats stats() const override { return upstream_.stats(); }

  size_t budget_bytes() const { return budget_bytes_; }
  void set_budget_bytes(size_t bytes) { budget_bytes_ = bytes; }
  size_t in_use_bytes() const { return in_use_bytes_; }

 private:
  Allocator& upstream_;
  std::atomic<size_t> budget_bytes_;
  std::atomic<size_t> in_use_bytes_{0};
};

BudgetAllocator& budget_allocator() {
  // Never destroyed: tensors may outlive everything.
  static auto* allocator = new BudgetAllocator(*new PoolAllocator);
  return *allocator;
}

}  // namespace

size_t available_memory_bytes() {
  size_t available = SIZE_MAX;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, unit; meminfo >> key;) {
    size_t kilobytes = 0;
    if (key == "MemAvailable:" && meminfo >> kilobytes) available = kilobytes * 1024;
    std::getline(meminfo, unit);
  }
  const auto group = left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
  const auto old_group =
      left("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  return std::min({available, group.value_or(SIZE_MAX), old_group.value_or(SIZE_MAX)});
}

size_t memory_budget_bytes() { return budget_allocator().budget_bytes(); }
void set_memory_budget(size_t bytes) { budget_allocator().set_budget_bytes(bytes); }
size_t memory_in_use_bytes() { return budget_allocator().in_use_bytes(); }
Allocator& pipeline_allocator() { return budget_allocator(); }

}  // namespace isochron::data
