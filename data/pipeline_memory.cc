#include "isochron/data/pipeline_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "isochron/core/counters.h"
#include "isochron/core/error.h"
#include "isochron/memory/adaptors.h"
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

class BudgetAllocator final : public LimitingAllocator {
 public:
  using LimitingAllocator::LimitingAllocator;
  void* allocate(size_t bytes, std::string_view tag) override {
    void* const pointer = LimitingAllocator::allocate(bytes, tag);
    count(Counter::kPipelineBytes, static_cast<int64_t>(bytes));
    return pointer;
  }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    LimitingAllocator::deallocate(pointer, bytes);
    count(Counter::kPipelineBytes, -static_cast<int64_t>(bytes));
  }

 private:
  [[noreturn]] void refuse(size_t bytes, std::string_view tag) const override {
    fail(ErrorCode::kOutOfMemory, "dataset",
         "{} bytes for '{}' would exceed the budget of {} bytes for input pipelines, of which {} are in use; "
         "prefetch, shuffle or cache less, or raise it with data::set_memory_budget",
         bytes, tag, limit_bytes(), live_bytes());
  }
};

BudgetAllocator& budget_allocator() {
  // Never destroyed: tensors may outlive everything.
  static auto* allocator = new BudgetAllocator(*new PoolAllocator, available_memory_bytes() / kShareOfFree);
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

size_t memory_budget_bytes() { return budget_allocator().limit_bytes(); }
void set_memory_budget(size_t bytes) { budget_allocator().set_limit_bytes(bytes); }
size_t memory_in_use_bytes() { return budget_allocator().live_bytes(); }
Allocator& pipeline_allocator() { return budget_allocator(); }

void MemoryCharge::add(size_t bytes) {
  budget_allocator().claim(bytes, "pipeline");
  count(Counter::kPipelineBytes, static_cast<int64_t>(bytes));
  bytes_ += bytes;
}
MemoryCharge::~MemoryCharge() {
  if (bytes_ == 0) return;
  budget_allocator().release(bytes_);
  count(Counter::kPipelineBytes, -static_cast<int64_t>(bytes_));
}

}  // namespace isochron::data
