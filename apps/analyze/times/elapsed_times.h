// Handles elapsed times, which count from the start of a run like a clock, instead of the time of each
// iteration.
#pragma once

#include <span>

#include "isochron/apps/analyze/times/iteration_times.h"

namespace isochron::apps {

/// Whether values look like those of a clock that began with the run, or like dates: they never decrease, the
/// steps between them are about even, and the first value is at most a few steps, or more than three years.
/// Iteration times that grow that much still scatter, so some are shorter than the one before. The values may
/// decrease now and then, because a clock may be set back. Fewer than 16 values must be more even; fewer than
/// six never look elapsed.
bool look_elapsed(std::span<const double> ns);

/// Replaces the values of each series by the differences between neighbors. If a value isn't larger than the
/// one before, the clock was set back; the value is left out, and a note counts such values. Throws
/// kBadFormat if no value of a series is larger than the one before.
void take_differences(IterationTimes& times, const std::string& where);

}  // namespace isochron::apps
