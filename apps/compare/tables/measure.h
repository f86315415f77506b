// Short measurements for a scenario's tables.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "isochron/observe/diagnose/report.h"

namespace isochron::apps {

/// The time in ns of one call of each function. This is the tenth percentile, which other programs hardly
/// affect. The functions are called alternately for about `seconds` in all (at least ten rounds), so that
/// changes of the machine affect all of them. Each function is called once before, for its one-time work.
/// Calls of less than 20 us are timed in groups.
std::vector<double> times_in_turns(std::span<const std::function<void()>> functions, double seconds);

/// The same for one function.
double time_of(const std::function<void()>& function, double seconds);

/// "1.5 MB"
inline std::string bytes(size_t count) { return observe::bytes_text(static_cast<double>(count)); }

}  // namespace isochron::apps
