// Fields of tables and logs, and what messages say about them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "isochron/apps/analyze/times/iteration_times.h"
#include "isochron/apps/analyze/times/time_units.h"

namespace isochron::apps {

/// The unit that --unit names, or else the one that was found. Throws kInvalidArgument if there is neither.
TimeUnit chosen_unit(const TimesOptions& options, const std::optional<TimeUnit>& found,
                     const std::string& where);

/// time_unit_of_name for one of a table's names: "time_min" beside "time_max" is a least time, and not in
/// minutes.
std::optional<TimeUnit> unit_of_column(const std::vector<std::string>& names, const std::string& name);

/// A number in `unit`, converted to ns. Throws kBadFormat if it is not a time; 0 is one only `since_start`:
/// of the times since the start of the run, the first may be 0.
double time_ns(std::string_view text, const TimeUnit& unit, const std::string& where,
               bool since_start = false);

/// The most frequent separator of a first line: comma, semicolon or tab; a comma if it has none of them.
char separator_of(std::string_view line);

/// A number of a table or log; nothing if the field contains anything else.
std::optional<double> whole_field_number(std::string_view text);

/// The index in `names` of the phase to judge: the one that `options` names, or `main`. Throws
/// kInvalidArgument listing the available names.
size_t chosen_phase(const TimesOptions& options, const std::vector<std::string>& names, size_t main);

/// As many names as fit in a message: "a, b and 3 more".
std::string names_text(const std::vector<std::string>& names);

}  // namespace isochron::apps
