// ArenaAllocator: one block that is reserved up front, handed out front to back and reset as a whole. For
// allocations with a common lifetime.
#pragma once

#include "isochron/memory/allocators/allocator.h"
#include "isochron/memory/allocators/spin_lock.h"

namespace isochron {

class ArenaAllocator final : public Allocator {
 public:
  /// Reserves `capacity_bytes` (rounded up to kCpuAlignment) from the system. Throws kOutOfMemory.
  explicit ArenaAllocator(size_t capacity_bytes);
  ~ArenaAllocator() override;

  /// The next `bytes` bytes. Throws kOutOfMemory beyond the capacity: an arena never grows.
  void* allocate(size_t bytes, std::string_view tag) override;
  /// Only updates the statistics: the bytes are freed by `reset`.
  void deallocate(void* pointer, size_t bytes) noexcept override;
  /// Starts over at the front. Throws kInvalidArgument while allocations live.
  void reset();
  /// There is nothing to release: the block is kept until the arena is destroyed.
  size_t trim() override { return 0; }
  /// `in_use_bytes` counts everything handed out since the last reset.
  AllocatorStats stats() const override;

 private:
  std::byte* base_;
  const size_t capacity_bytes_;
  mutable SpinLock lock_;
  AllocatorStats stats_;
};

}  // namespace isochron
