// The ledger: what all allocators of the process hold at one moment, by tag. Tags are kept where memory is
// handed out anyway (a copy of at most 22 characters into a block's header: 1 to 2 ns of the 27 that a block
// takes to come and go), so it is always on. Reading walks the blocks, some 0.2 us each, and allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isochron/memory/allocators/allocator.h"

namespace isochron {

struct Ledger {
  std::vector<TagUsage> tags;    // asked for, largest first; "untagged": of allocators that keep no tags
  size_t in_use_bytes = 0;       // handed out, with rounding and headers
  size_t reserved_bytes = 0;     // held from the system
  size_t mapped_bytes = 0;       // of these, in blocks with pages of their own; the rest comes from malloc
  int64_t live_allocations = 0;  // blocks
  int64_t allocators = 0;        // alive

  /// Bytes under `tag`, 0 where there are none.
  size_t bytes_of(std::string_view tag) const;
};

/// Of every PoolAllocator, NaiveAllocator and ArenaAllocator alive.
Ledger read_ledger();

namespace internal {
/// For allocators that take from the system: called at the end of the constructor and at the start of the
/// destructor.
void enter_ledger(const Allocator& allocator);
void leave_ledger(const Allocator& allocator) noexcept;
}  // namespace internal

}  // namespace isochron
