// Reads the iteration times that another program wrote: a column of a table or of JSON Lines (tables/), the
// matches of a pattern in a log, or a log in a known format (logs/). `analyze` judges them.
#pragma once

#include "isochron/apps/analyze/times/iteration_times.h"

namespace isochron::apps {

/// Reads a plain or gzipped file and returns the times in ns: each is above 0, and each series has at least
/// one. The text is read as a table if a column is named or if its first two lines look like a table, and
/// otherwise as a log. Throws kIo; kInvalidArgument for a bad pattern, an unnamed column among several, a
/// missing phase, an unknown unit, or times that look as if they counted from the run's start; kBadFormat
/// with the line for an invalid time, a log in no known format, UTF-16 text, or more than `most_times` times.
IterationTimes read_times(const TimesOptions& options);

}  // namespace isochron::apps
