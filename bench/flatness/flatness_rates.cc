// Measures how often the flatness verdict errs on synthetic runs of many kinds (flatness_series.h), judged by
// their iterations' durations as in `isochron analyze`, and compares it with other tests (flatness_peers.h)
// of the same runs. Prints the table by class of docs/flatness-error-rates.md.
//   flatness_rates [SERIES_PER_CLASS] [TEXT]    TEXT: only classes whose name contains it
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "flatness_peers.h"
#include "flatness_series.h"
#include "isochron/core/base/clock.h"
#include "isochron/observe/diagnose/report.h"
#include "share_text.h"

namespace {

using namespace isochron;
using namespace isochron::bench;
using observe::Flatness;

enum class Method { kIsochron, kTenths, kMannKendall, kEnergy, kCount };
constexpr size_t kMethods = static_cast<size_t>(Method::kCount);

struct Counts {
  int runs = 0;
  int wrong = 0;  // an alarm for a healthy run; flat, or a change the other way, for others
  int inconclusive = 0;
  std::array<int, kMethods> alarms{};
  double judging_ns = 0;

  void add(const Counts& other) {
    runs += other.runs;
    wrong += other.wrong;
    inconclusive += other.inconclusive;
    for (size_t m = 0; m < kMethods; ++m) alarms[m] += other.alarms[m];
    judging_ns += other.judging_ns;
  }
};

bool is_wrong(Truth truth, Flatness said) {
  if (said == Flatness::kInconclusive) return false;
  constexpr Flatness kRight[] = {Flatness::kFlat, Flatness::kGrowing, Flatness::kShrinking};
  return said != kRight[static_cast<size_t>(truth)];
}

Counts judge_one(const SeriesClass& series, uint64_t seed, const observe::ReportOptions& options) {
  const std::vector<double> durations = series.make(seed);
  const int64_t begin = now_ns();
  const observe::RunReport report = observe::make_report(durations, series.name, 0, options);
  Counts counts;
  counts.judging_ns = static_cast<double>(now_ns() - begin);
  counts.runs = 1;
  const Flatness said = report.time.kind;
  counts.wrong = is_wrong(series.truth, said);
  counts.inconclusive = said == Flatness::kInconclusive;
  const std::vector<double> means = observe::window_means(observe::main_windows(report));
  const double bound = options.time.bound;
  counts.alarms = {said == Flatness::kGrowing || said == Flatness::kShrinking, tenths_differ(means, bound),
                   mann_kendall_alarms(means), energy_change_point(means, bound, seed)};
  if (std::getenv("FLATNESS_RATES_VERBOSE") != nullptr && (counts.wrong || counts.inconclusive))
    fmt::print("  {} seed {}: {}; {}\n", series.name, seed, verdict_text(report.time), report.time.reason);
  return counts;
}

void print_row(const std::string& name, const Counts& counts) {
  fmt::print("| {} | {} | {} |", name, share_text(counts.wrong, counts.runs),
             share_text(counts.inconclusive, counts.runs));
  for (size_t m = 1; m < kMethods; ++m) fmt::print(" {:.0f} |", 100.0 * counts.alarms[m] / counts.runs);
  fmt::print(" {:.1f} |\n", counts.judging_ns / counts.runs / 1e6);
  std::fflush(stdout);
}

void print_table(bool healthy, int count, const std::string& only) {
  const observe::ReportOptions options = [] {
    observe::ReportOptions chosen;
    chosen.time.min_seconds = 0;  // like `analyze` for another program's times
    return chosen;
  }();
  fmt::print(
      "| {} | {} % | inconclusive % | tenths: alarm % | Mann-Kendall: alarm % | E-divisive: alarm % | ms a "
      "verdict |\n",
      healthy ? "healthy runs" : "sick runs, by twice the bound", healthy ? "false alarm" : "missed");
  fmt::print("|---|---|---|---|---|---|---|\n");
  Counts all;
  for (const SeriesClass& series : series_classes(options.time.bound)) {
    if ((series.truth == Truth::kHealthy) != healthy || series.name.find(only) == std::string::npos) continue;
    Counts counts;
    for (int i = 0; i < count; ++i) counts.add(judge_one(series, static_cast<uint64_t>(i) + 1, options));
    print_row(series.name, counts);
    all.add(counts);
  }
  if (all.runs > 0) print_row("**all**", all);
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) { return print_tables(argc, argv, 100, print_table); }
