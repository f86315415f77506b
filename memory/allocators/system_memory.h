// The only calls of the system's allocator: aligned, counted, never throwing. Blocks of 1 MiB and more have
// pages of their own, huge pages if the system grants them. All pages are touched at allocation, so that no
// later step has page faults. When such a block is freed, it returns to the system at once.
#pragma once

#include <cstddef>

namespace isochron {

/// Returns at least `bytes` bytes aligned to kCpuAlignment, or nullptr if the system refuses (a limit, a full
/// address space; a system that overcommits memory may end the process instead). Counts kSystemAllocations
/// and kBytesReserved.
void* system_allocate(size_t bytes) noexcept;
/// Frees memory that `system_allocate(bytes)` returned.
void system_free(void* pointer, size_t bytes) noexcept;
/// The size that `system_allocate` counts for `bytes`: a multiple of kCpuAlignment, at least one; 0 on
/// overflow. A block with pages of its own also includes the rest of its last page.
size_t system_block_bytes(size_t bytes) noexcept;
/// Bytes currently held in blocks with pages of their own, rounded up to whole pages. All of it is resident
/// unless swapped out.
size_t system_mapped_bytes() noexcept;

}  // namespace isochron
