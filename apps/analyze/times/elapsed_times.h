// Times that count from the start of a run, as a clock shows them, in place of the time of each iteration.
#pragma once

#include <span>

#include "isochron/apps/analyze/times/iteration_times.h"

namespace isochron::apps {

/// Whether values look like those of a clock that began with the run, or like dates: they never fall, the
/// steps between them are about even, and the first value is no longer than a few steps, or longer than three
/// years. Times of iterations scatter: if they grow that much, some are still shorter than the one before. A
/// clock may be set back now and then. Fewer than 16 values must be more even; fewer than six never look so.
bool look_elapsed(std::span<const double> ns);

/// Replaces the values of each series by the differences between neighbors. A value that isn't larger than
/// the one before is left out and counted in a note: the clock was set back. Throws kBadFormat if a series
/// has no two values that rise.
void take_differences(IterationTimes& times, const std::string& where);

}  // namespace isochron::apps
