// The one door to the system's allocator: aligned, counted, never throwing. Blocks of 1 MiB and more have
// pages of their own, huge ones where the system grants them, all touched when they are taken: no later step
// pays for a page, and what is given back is gone.
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
