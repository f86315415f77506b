// Parses fields of tables and logs, with messages about invalid ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "isochron/apps/analyze/times/iteration_times.h"
#include "isochron/apps/analyze/times/time_units.h"

namespace isochron::apps {

/// The unit given by --unit, or else the unit that was found. Throws kInvalidArgument if there is neither.
TimeUnit chosen_unit(const TimesOptions& options, const std::optional<TimeUnit>& found,
                     const std::string& where);

/// Like time_unit_of_name, but considers the table's other names: next to "time_max", "time_min" is a
/// minimum, not a time in minutes.
std::optional<TimeUnit> unit_of_column(const std::vector<std::string>& names, const std::string& name);

/// A number in `unit`, converted to ns. Throws kBadFormat if it isn't a time above 0. With `since_start`, 0
/// is allowed, because the first time since the start of a run may be 0.
double time_ns(std::string_view text, const TimeUnit& unit, const std::string& where,
               bool since_start = false);

/// The most frequent of comma, semicolon and tab in a first line; a comma if it has none of them.
char separator_of(std::string_view line);

/// A number of a table or log; nothing if the field contains anything else.
std::optional<double> whole_field_number(std::string_view text);

/// The index in `names` of the phase to judge: the one named by `options`, or else `main`. Throws
/// kInvalidArgument, listing `names`, if there is no such phase.
size_t chosen_phase(const TimesOptions& options, const std::vector<std::string>& names, size_t main);

/// As many names as fit in a message: "a, b and 3 more".
std::string names_text(const std::vector<std::string>& names);

}  // namespace isochron::apps
