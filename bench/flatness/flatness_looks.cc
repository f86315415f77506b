// Measures how often the alarm during a run (observe/diagnose/drift_alarm.h) is false or missing. Each
// synthetic run of flatness_series.h is stretched to an hour of a simulated clock and looked at as often as
// the alarm does. Prints a table of docs/flatness-error-rates.md.
//   flatness_looks [SERIES_PER_CLASS] [TEXT]    TEXT: only classes whose name contains it
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "flatness_series.h"
#include "isochron/observe/diagnose/drift_alarm.h"
#include "isochron/observe/record/recorder.h"
#include "observe/statistics/simulated_clock.h"
#include "share_text.h"

namespace {

using namespace isochron;
using namespace isochron::bench;

constexpr double kHourNs = 3600e9;

struct Watched {
  int looks = 0;
  bool raised = false;
  double at = 0;  // position in the run
};

Watched watch(const std::vector<double>& durations) {
  const double stretched = kHourNs / std::accumulate(durations.begin(), durations.end(), 0.0);
  observe::Recorder recorder(
      {.reference_kernel = false, .timing_share = 0, .clock = observe::simulated_now_ns});
  observe::DriftAlarm alarm(recorder);
  Watched result;
  for (size_t i = 0; i < durations.size() && !result.raised; ++i) {
    {
      const observe::IterationScope iteration(recorder);
      observe::spend(std::llround(durations[i] * stretched));
    }
    if (!alarm.due() || !alarm.look()) continue;
    result.raised = true;
    result.at = static_cast<double>(i + 1) / static_cast<double>(durations.size());
  }
  result.looks = alarm.looks();
  return result;
}

struct Counts {
  int runs = 0;
  int alarms = 0;
  int looks = 0;
  std::vector<double> at = {};

  void add(const Counts& other) {
    runs += other.runs;
    alarms += other.alarms;
    looks += other.looks;
    at.insert(at.end(), other.at.begin(), other.at.end());
  }
};

void print_row(const std::string& name, Counts counts) {
  std::string when = "-";
  if (!counts.at.empty()) {
    const auto middle = counts.at.begin() + static_cast<std::ptrdiff_t>(counts.at.size() / 2);
    std::ranges::nth_element(counts.at, middle);
    when = fmt::format("{:.0f} %", 100 * *middle);
  }
  fmt::print("| {} | {} | {} | {:.0f} |\n", name, share_text(counts.alarms, counts.runs), when,
             static_cast<double>(counts.looks) / counts.runs);
  std::fflush(stdout);
}

/// Covers only healthy and growing classes, not those that become faster.
void print_table(bool healthy, int count, const std::string& only) {
  fmt::print("| {} | alarm % | half of the alarms by | looks |\n|---|---|---|---|\n",
             healthy ? "healthy runs" : "growing runs, by twice the bound");
  Counts all;
  for (const SeriesClass& series : series_classes(observe::FlatnessOptions{}.bound)) {
    if (series.truth != (healthy ? Truth::kHealthy : Truth::kGrowing)) continue;
    if (series.name.find(only) == std::string::npos) continue;
    Counts counts;
    for (int i = 0; i < count; ++i) {
      const Watched watched = watch(series.make(static_cast<uint64_t>(i) + 1));
      counts.add({1, watched.raised, watched.looks,
                  watched.raised ? std::vector{watched.at} : std::vector<double>{}});
    }
    print_row(series.name, counts);
    all.add(counts);
  }
  if (all.runs > 0) print_row("**all**", all);
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) { return print_tables(argc, argv, 50, print_table); }
