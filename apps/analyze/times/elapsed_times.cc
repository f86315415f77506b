#include "isochron/apps/analyze/times/elapsed_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/text/count_text.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {

namespace {

/// Whether values that never fall look like those of a clock. A clock's rounding may be coarser than a single
/// step, so steps over several values are compared.
bool look_elapsed_without_falls(std::span<const double> ns) {
  constexpr size_t kMany = 16, kParts = 16;
  constexpr double kDate = 1e17;  // ns: three years; larger values count from 1970
  const bool many = ns.size() >= kMany;
  const double most_at_first = many ? 10 : 2;  // steps
  const double most_uneven = many ? 3 : 1.5;   // ratio of the third quartile of the steps to the first
  const size_t over = (ns.size() - 1 + kParts - 1) / kParts;
  std::vector<double> steps;
  for (size_t i = over; i < ns.size(); i += over)
    steps.push_back((ns[i] - ns[i - over]) / static_cast<double>(over));
  const double usual = observe::median(steps);
  return usual > 0 && (ns.front() <= most_at_first * usual || ns.front() > kDate) &&
         observe::quantile(steps, 0.75) <= most_uneven * observe::quantile(steps, 0.25);
}

}  // namespace

bool look_elapsed(std::span<const double> ns) {
  constexpr size_t kFewest = 6;
  constexpr double kNearlyAll = 0.9;
  size_t elapsed = 0;  // number of values in stretches without decreases that look elapsed
  for (size_t begin = 0; begin < ns.size();) {
    const auto fall = std::ranges::is_sorted_until(ns.subspan(begin));
    const auto length = static_cast<size_t>(fall - ns.subspan(begin).begin());
    const std::span<const double> stretch = ns.subspan(begin, length);
    if (length >= kFewest && look_elapsed_without_falls(stretch)) elapsed += length;
    begin += length;
  }
  return ns.size() >= kFewest && static_cast<double>(elapsed) >= kNearlyAll * static_cast<double>(ns.size());
}

void take_differences(IterationTimes& times, const std::string& where) {
  size_t set_back = 0;
  for (TimeSeries& series : times.series) {
    std::vector<double> steps;
    for (size_t i = 0; i < series.ns.size(); ++i) {
      if (i == 0) continue;
      const double step = series.ns[i] - series.ns[i - 1];
      if (step > 0)
        steps.push_back(step);
      else
        ++set_back;
    }
    require(!steps.empty(), ErrorCode::kBadFormat, where,
            "no time is larger than the one before it; expected times since the start of the run");
    series.ns = std::move(steps);
  }
  times.each += times.each.empty() ? "the difference from the value before"
                                   : ", as the difference from the value before";
  if (set_back > 0)
    times.notes.push_back(
        fmt::format("left out: {} no larger than the one before", count_text(set_back, "value")));
}

}  // namespace isochron::apps
