// The heap of malloc, which serves everything but what memory/ plans.
#pragma once

namespace isochron {

/// Gives the system what is free in malloc's heap, whole pages, in a ms or less for each 10 MB of it: after
/// work that is done seldom, whose memory would else stay resident.
void give_back_free_heap() noexcept;

}  // namespace isochron
