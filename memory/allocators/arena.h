// ArenaAllocator: one block reserved at once, handed out front to back and reset as a whole. For what lives
// and dies together.
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
  /// Only counts: the bytes come back with `reset`.
  void deallocate(void* pointer, size_t bytes) noexcept override;
  /// Starts over at the front. Throws kInvalidArgument while allocations live.
  void reset();
  /// Nothing to give: the block stays until the arena goes.
  size_t trim() override { return 0; }
  /// In use is everything handed out since the last reset.
  AllocatorStats stats() const override;

 private:
  std::byte* base_;
  const size_t capacity_bytes_;
  mutable SpinLock lock_;
  AllocatorStats stats_;
};

}  // namespace isochron
