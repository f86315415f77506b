// Is my loop getting slower? A recorder around any C++ loop, with or without training in it, and its verdict.
// The first loop sums its whole history in every iteration, like programs that keep every loss in a list. The
// second loop keeps a running sum.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "isochron/isochron.h"

using namespace isochron::observe;

constexpr double kSeconds = 2.2;  // a verdict needs two seconds and 64 windows
constexpr double kLongest = 11;
constexpr int kRuns = 3;

/// Runs longer if the verdict is inconclusive, as when other programs keep the machine busy.
template <typename Work>
RunReport watch(const char* name, Work work) {
  Recorder recorder;
  for (double seconds = kSeconds;; seconds += kSeconds) {
    while (static_cast<double>(recorder.totals().elapsed_ns) < seconds * 1e9) {
      const IterationScope iteration(recorder);
      const PhaseScope phase(recorder, Phase::kCompute);
      work();
    }
    RunReport report = make_report(recorder, name);
    if (report.time.kind != Flatness::kInconclusive || seconds >= kLongest) return report;
  }
}

/// A machine whose speed changes in the middle of a short run can look like growth. A loop that grows does so
/// in every run.
template <typename Work>
RunReport watch_growth_again(const char* name, Work work) {
  RunReport report = watch(name, work);
  for (int run = 1; run < kRuns && report.time.kind == Flatness::kGrowing; ++run) report = watch(name, work);
  return report;
}

double loss(int64_t step) {
  double value = 0;
  for (int64_t i = 1; i <= 2000; ++i) value += std::sqrt(static_cast<double>(i + step));
  return value;
}

int main() {
  int64_t step = 0;
  double mean = 0;

  std::vector<double> history;
  const RunReport keeps = watch("keeps all losses", [&] {
    history.push_back(loss(++step));
    double sum = 0;
    for (double value : history) sum += value;
    mean = sum / static_cast<double>(history.size());
  });

  double sum = 0;
  step = 0;
  const RunReport running = watch_growth_again("running sum", [&] {
    sum += loss(++step);
    mean = sum / static_cast<double>(step);
  });

  print_table(stdout, std::vector{keeps, running});
  for (const RunReport& report : {keeps, running}) {
    fmt::print("{:<17} {}\n", report.name, verdict_text(report.time));
  }
  // On a busy machine either may stay inconclusive, but the first is never flat and the second never growing.
  return mean > 0 && keeps.time.kind != Flatness::kFlat && running.time.kind != Flatness::kGrowing ? 0 : 1;
}
