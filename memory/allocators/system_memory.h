// The only calls of the system's allocator: aligned, counted, never throwing. Blocks of 1 MiB and more have
// pages of their own, huge pages if the system grants them. All pages are touched at allocation, so that no
// later step has page faults. When such a block is freed, it returns to the system at once.
#pragma once

#include <cstddef>

namespace isochron {

/// At least `bytes` bytes aligned to kCpuAlignment, or nullptr where the system refuses them (a limit, an
/// address space that is full; a system that promises more than it has may end the process instead). Counts
/// kSystemAllocations and kBytesReserved.
void* system_allocate(size_t bytes) noexcept;
/// Gives back what `system_allocate(bytes)` returned.
void system_free(void* pointer, size_t bytes) noexcept;
/// What `system_allocate` counts for `bytes`: a multiple of kCpuAlignment, at least one. 0 when it overflows.
/// A block with pages of its own also has the rest of its last page.
size_t system_block_bytes(size_t bytes) noexcept;
/// Held now in blocks with pages of their own, whole pages counted: all of it resident, unless swapped out.
size_t system_mapped_bytes() noexcept;

}  // namespace isochron
