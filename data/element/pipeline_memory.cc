#include "isochron/data/element/pipeline_memory.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/adaptors.h"
#include "isochron/memory/allocators/pool.h"

namespace isochron::data {
namespace {

constexpr size_t kShareOfFree = 4;
constexpr const char* kVariable = "ISOCHRON_MEMORY_BUDGET";

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

/// "123", "512MB", "8GiB".
std::optional<size_t> size_in(std::string_view text) {
  constexpr std::pair<std::string_view, size_t> kUnits[] = {{"", 1},
                                                            {"B", 1},
                                                            {"KB", 1000},
                                                            {"MB", 1000'000},
                                                            {"GB", 1000'000'000},
                                                            {"KiB", size_t{1} << 10},
                                                            {"MiB", size_t{1} << 20},
                                                            {"GiB", size_t{1} << 30}};
  size_t number = 0, bytes = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<size_t>(stop - text.data()));
  const auto* unit = std::ranges::find(kUnits, rest, [](const auto& each) { return each.first; });
  if (unit == std::end(kUnits) || __builtin_mul_overflow(number, unit->second, &bytes)) return std::nullopt;
  return bytes;
}

size_t first_budget_bytes() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr) return available_memory_bytes() / kShareOfFree;
  const std::optional<size_t> bytes = size_in(text);
  require(bytes.has_value(), ErrorCode::kInvalidArgument, kVariable,
          "expected a number of bytes, as 4000000000, 512MB or 8GiB, got '{}'", text);
  return *bytes;
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
         "prefetch, shuffle or cache less, or raise it with data::set_memory_budget or the environment's {}",
         bytes, tag, limit_bytes(), live_bytes(), kVariable);
  }
};

BudgetAllocator& budget_allocator() {
  // Never destroyed: tensors may outlive everything.
  static auto* allocator = new BudgetAllocator(*new PoolAllocator, first_budget_bytes());
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

void ReadMemory::hold(size_t bytes) {
  BudgetAllocator& budget = budget_allocator();
  if (bytes > bytes_ && !budget.try_claim(bytes - bytes_)) {
    fail(ErrorCode::kOutOfMemory, where_,
         "reading its content takes at least {} bytes, which exceeds the budget of {} bytes, of which {} are "
         "in use; raise the budget with data::set_memory_budget or the environment variable {}{}{}",
         bytes, budget.limit_bytes(), budget.live_bytes(), kVariable, instead_.empty() ? "" : ", or use ",
         instead_);
  }
  if (bytes < bytes_) budget.release(bytes_ - bytes);
  count(Counter::kPipelineBytes, static_cast<int64_t>(bytes) - static_cast<int64_t>(bytes_));
  bytes_ = bytes;
}
void ReadMemory::add(size_t bytes) { hold(checked_add(bytes_, bytes, where_)); }
ReadMemory::~ReadMemory() {
  if (bytes_ == 0) return;
  budget_allocator().release(bytes_);
  count(Counter::kPipelineBytes, -static_cast<int64_t>(bytes_));
}

}  // namespace isochron::data
