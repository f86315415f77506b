// Short measurements for a scenario's tables.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "isochron/observe/diagnose/report.h"

namespace isochron::apps {

/// Time in ns of one call of each function: the time that nine in ten calls exceed, so that other programs
/// have little effect. The functions are called alternately for about `seconds` in all (at least ten rounds),
/// so that changes of the machine affect all alike. Each is called once before, for its one-time work. Calls
/// of less than 20 us are timed in groups.
std::vector<double> times_in_turns(std::span<const std::function<void()>> functions, double seconds);

/// The same for one function.
double time_of(const std::function<void()>& function, double seconds);

/// "1.5 MB"
inline std::string bytes(size_t count) { return observe::bytes_text(static_cast<double>(count)); }

}  // namespace isochron::apps
