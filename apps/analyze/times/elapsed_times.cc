#include "isochron/apps/analyze/times/elapsed_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {

bool look_elapsed(std::span<const double> ns) {
  constexpr size_t kFewest = 6, kMany = 16;
  constexpr double kDate = 1e17;  // ns: three years; longer ones count from 1970
  if (ns.size() < kFewest || !std::ranges::is_sorted(ns)) return false;
  const bool many = ns.size() >= kMany;
  const double most_at_first = many ? 10 : 2;  // steps
  const double most_uneven = many ? 3 : 1.5;   // third quartile of the steps to their first
  std::vector<double> steps;
  for (size_t i = 1; i < ns.size(); ++i) steps.push_back(ns[i] - ns[i - 1]);
  const double usual = observe::median(steps);
  return usual > 0 && (ns.front() <= most_at_first * usual || ns.front() > kDate) &&
         observe::quantile(steps, 0.75) <= most_uneven * observe::quantile(steps, 0.25);
}

void take_differences(IterationTimes& times, const std::string& where) {
  size_t set_back = 0;
  std::vector<double> all;
  double reciprocals = 0, values = 0;
  for (TimeSeries& series : times.series) {
    std::vector<double> steps;
    for (size_t i = 0; i < series.ns.size(); ++i) {
      reciprocals += 1 / series.ns[i];
      ++values;
      if (i == 0) continue;
      const double step = series.ns[i] - series.ns[i - 1];
      if (step > 0)
        steps.push_back(step);
      else
        ++set_back;
    }
    require(
        !steps.empty(), ErrorCode::kBadFormat, where,
        "no two neighboring times of which the second is larger, expected times since the start of the run");
    all.insert(all.end(), steps.begin(), steps.end());
    series.ns = std::move(steps);
  }
  // The last digit of a difference is worth as much as that of a time, but a larger part of it.
  times.resolution *= values / reciprocals / observe::median(all);
  times.each += times.each.empty() ? "the difference from the value before"
                                   : ", as the difference from the value before";
  if (set_back > 0)
    times.notes.push_back(fmt::format("left out: {} value{} no larger than the one before", set_back,
                                      set_back == 1 ? "" : "s"));
}

}  // namespace isochron::apps
