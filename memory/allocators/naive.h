// NaiveAllocator: every request goes straight to the system. The slow baseline for the pool and the plan.
#pragma once

#include <atomic>

#include "isochron/memory/allocators/allocator.h"

namespace isochron {

class NaiveAllocator final : public Allocator {
 public:
  NaiveAllocator();
  ~NaiveAllocator() override;
  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  /// There is nothing to release: freed memory returns to the system immediately.
  size_t trim() override { return 0; }
  AllocatorStats stats() const override;

 private:
  std::atomic<size_t> in_use_bytes_{0};
  std::atomic<size_t> requested_bytes_{0};
  std::atomic<size_t> peak_in_use_bytes_{0};
  std::atomic<int64_t> live_allocations_{0};
  std::atomic<int64_t> total_allocations_{0};
};

}  // namespace isochron
