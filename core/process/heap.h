// malloc's heap, which holds everything that the allocators of memory/ don't.
#pragma once

namespace isochron {

/// Returns free memory of malloc's heap to the system, in whole pages, in 1 ms or less per 10 MB. Call it
/// after rare work, whose memory would otherwise stay resident.
void give_back_free_heap() noexcept;

}  // namespace isochron
