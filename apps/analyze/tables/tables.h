// Reads times from tables and JSON Lines with one row or object per iteration. The options name the columns
// or keys.
#pragma once

#include <string_view>

#include "isochron/apps/analyze/times/iteration_times.h"
#include "isochron/core/files/input_stream.h"

namespace isochron::apps {

/// Throws kInvalidArgument if there are several columns and none is named, if a unit is missing, or for a
/// phase that doesn't exist; kBadFormat, naming the line, for anything else in the file.
IterationTimes times_of_table(InputStream& stream, const TimesOptions& options);
IterationTimes times_of_json(InputStream& stream, const TimesOptions& options);

/// Whether a line is a JSON object, as in JSON Lines.
bool is_json_object(std::string_view line);

}  // namespace isochron::apps
