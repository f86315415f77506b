#include "isochron/memory/allocators/naive.h"

#include <cassert>

#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/memory/allocators/ledger.h"
#include "isochron/memory/allocators/system_memory.h"

namespace isochron {

NaiveAllocator::NaiveAllocator() { internal::enter_ledger(*this); }

NaiveAllocator::~NaiveAllocator() {
  internal::leave_ledger(*this);
  assert(live_allocations_ == 0 && "an allocator must outlive what it handed out");
}

void* NaiveAllocator::allocate(size_t bytes, std::string_view tag) {
  note_made(Made::kAllocation, bytes, tag);
  const UnsealedScope noted;
  void* pointer = system_allocate(bytes);
  if (pointer == nullptr) throw_out_of_memory("naive", bytes, tag, kNoByteLimit, *this);
  const size_t block = system_block_bytes(bytes);
  count(Counter::kBytesInUse, static_cast<int64_t>(block));
  requested_bytes_ += bytes;
  ++live_allocations_;
  ++total_allocations_;
  const size_t in_use = in_use_bytes_ += block;
  size_t peak = peak_in_use_bytes_;
  while (in_use > peak && !peak_in_use_bytes_.compare_exchange_weak(peak, in_use)) {
  }
  return pointer;
}

void NaiveAllocator::deallocate(void* pointer, size_t bytes) noexcept {
  const size_t block = system_block_bytes(bytes);
  system_free(pointer, bytes);
  count(Counter::kBytesInUse, -static_cast<int64_t>(block));
  in_use_bytes_ -= block;
  requested_bytes_ -= bytes;
  --live_allocations_;
}

AllocatorStats NaiveAllocator::stats() const {
  AllocatorStats stats;
  stats.in_use_bytes = in_use_bytes_;
  stats.requested_bytes = requested_bytes_;
  stats.reserved_bytes = stats.in_use_bytes;
  stats.peak_in_use_bytes = peak_in_use_bytes_;
  stats.live_allocations = live_allocations_;
  stats.total_allocations = total_allocations_;
  stats.system_allocations = stats.total_allocations;
  return stats;
}

}  // namespace isochron
