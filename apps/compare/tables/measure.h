// Short measurements for a scenario's tables.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "isochron/observe/diagnose/report.h"

namespace isochron::apps {

/// Time in ns of one call of each function that nine in ten calls exceed, so that other programs' part in it
/// is small. They are called in turns for about `seconds` in all (ten turns at least), so that what the
/// machine does meets all of them alike; each once before, for what it does only once. Calls of less than 20
/// us are timed in groups.
std::vector<double> times_in_turns(std::span<const std::function<void()>> functions, double seconds);

/// The same for one function.
double time_of(const std::function<void()>& function, double seconds);

/// "1.5 MB"
inline std::string bytes(size_t count) { return observe::bytes_text(static_cast<double>(count)); }

}  // namespace isochron::apps
