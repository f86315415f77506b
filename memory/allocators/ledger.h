// The ledger: the memory that all allocators of the process hold at one moment, by tag. Allocation stores the
// tag in the block's header (a copy of at most 22 characters: 1 to 2 ns of the 27 ns for allocating and
// freeing a block), so the ledger is always on. Reading walks the blocks, about 0.2 us each, and allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isochron/memory/allocators/allocator.h"

namespace isochron {

struct Ledger {
  std::vector<TagUsage> tags;    // requested bytes, largest first; "untagged": from allocators without tags
  size_t in_use_bytes = 0;       // handed out, with rounding and headers
  size_t reserved_bytes = 0;     // held from the system
  size_t mapped_bytes = 0;       // part of reserved: blocks with separate pages; the rest comes from malloc
  int64_t live_allocations = 0;  // blocks
  int64_t allocators = 0;        // alive

  /// Bytes under `tag`, 0 if there are none.
  size_t bytes_of(std::string_view tag) const;
};

/// Sums over every PoolAllocator, NaiveAllocator and ArenaAllocator that is alive.
Ledger read_ledger();

namespace internal {
/// For allocators that take memory from the system. Call them at the end of the constructor and at the start
/// of the destructor.
void enter_ledger(const Allocator& allocator);
void leave_ledger(const Allocator& allocator) noexcept;
}  // namespace internal

}  // namespace isochron
