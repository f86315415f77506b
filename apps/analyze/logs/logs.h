// Reads times from logs.
#pragma once

#include "isochron/apps/analyze/times/iteration_times.h"
#include "isochron/core/files/input_stream.h"

namespace isochron::apps {

/// The times that the options' pattern finds. Throws kInvalidArgument for a bad pattern or a missing unit,
/// kBadFormat, naming the line, for anything else in the log.
IterationTimes times_of_pattern(InputStream& stream, const TimesOptions& options);

/// The times of a log in a known format. Throws kInvalidArgument for a format or phase that doesn't exist,
/// kBadFormat, naming the line, for anything else in the log.
IterationTimes times_of_log(InputStream& stream, const TimesOptions& options);

}  // namespace isochron::apps
