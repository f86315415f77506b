#include "isochron/memory/allocators/arena.h"

#include <cassert>
#include <mutex>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/ledger.h"
#include "isochron/memory/allocators/system_memory.h"

namespace isochron {

ArenaAllocator::ArenaAllocator(size_t capacity_bytes)
    : base_(static_cast<std::byte*>(system_allocate(capacity_bytes))),
      capacity_bytes_(system_block_bytes(capacity_bytes)) {
  if (base_ == nullptr) throw_out_of_memory("arena", capacity_bytes, "arena", kNoByteLimit, *this);
  stats_.reserved_bytes = capacity_bytes_;
  stats_.system_allocations = 1;
  internal::enter_ledger(*this);
}

ArenaAllocator::~ArenaAllocator() {
  internal::leave_ledger(*this);
  assert(stats_.live_allocations == 0 && "an arena must outlive what it handed out");
  count(Counter::kBytesInUse, -static_cast<int64_t>(stats_.in_use_bytes));
  system_free(base_, capacity_bytes_);
}

void* ArenaAllocator::allocate(size_t bytes, std::string_view tag) {
  const size_t block = system_block_bytes(bytes);
  {
    std::lock_guard lock(lock_);
    if (block != 0 && block <= capacity_bytes_ - stats_.in_use_bytes) {
      std::byte* result = base_ + stats_.in_use_bytes;
      stats_.on_allocate(bytes, block);
      count(Counter::kBytesInUse, static_cast<int64_t>(block));
      return result;
    }
  }
  throw_out_of_memory("arena", bytes, tag, capacity_bytes_, *this);
}

void ArenaAllocator::deallocate(void*, size_t bytes) noexcept {
  std::lock_guard lock(lock_);
  stats_.on_free(bytes, 0);  // its block is freed with all others
}

void ArenaAllocator::reset() {
  std::lock_guard lock(lock_);
  require(stats_.live_allocations == 0, ErrorCode::kInvalidArgument, "arena",
          "reset while {} allocations live; give them back first", stats_.live_allocations);
  count(Counter::kBytesInUse, -static_cast<int64_t>(stats_.in_use_bytes));
  stats_.in_use_bytes = 0;
}

AllocatorStats ArenaAllocator::stats() const {
  std::lock_guard lock(lock_);
  AllocatorStats stats = stats_;
  stats.free_bytes = stats.reserved_bytes - stats.in_use_bytes;
  stats.largest_free_bytes = stats.free_bytes;
  return stats;
}

}  // namespace isochron
