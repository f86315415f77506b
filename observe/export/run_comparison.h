// Compares two runs: the ratio of their step times, with an interval, and their other differences. Either
// side may consist of several equal runs, which then show how much such runs differ.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/run_record.h"

namespace isochron::observe {

/// A quantity in both runs, as text.
struct ComparedQuantity {
  std::string name;
  std::string first;
  std::string second;
  std::string change;  // "+12.3 %"; empty: not a number
};

/// The second run's level divided by the first's, as measured, and a 95 % interval for the ratio between the
/// programs.
struct TimeRatio {
  double ratio = 1;
  double low = 0;
  double high = 0;
  /// Whether the interval lies on one side of 1.
  bool differs() const { return low > 1 || high < 1; }
};

struct RunComparison {
  TimeRatio medians;  // of a step, over the runs' windows
  TimeRatio means;
  std::optional<double> machine;  // ratio of the reference kernel's times, second to first
  double first_waited = 0;        // share of the time spent waiting for a core
  double second_waited = 0;
  int first_runs = 1;
  int second_runs = 1;
  RunReport first;  // of several runs, the one with the median step time
  RunReport second;
  std::vector<ComparedQuantity> quantities;
  std::vector<ComparedQuantity> settings;     // settings and other statements of the records that differ
  std::vector<ComparedQuantity> environment;  // the same of the machine
  std::string conclusion;                     // one sentence
};

/// Compares the main classes' windows after warm-up. A run's level is the midmean of the logarithms of its
/// windows' medians (or means). Its error has these parts:
///  - within a run: from the circular block bootstrap (statistics.h);
///  - between runs, whose pages and neighbors differ though their programs are the same: a deviation of
///    kBetweenRuns, worth kBetweenRunsDegrees degrees of freedom, pooled with that of the runs given (the
///    moderated t of Smyth, "Linear Models and Empirical Bayes Methods", Statistical Applications in Genetics
///    and Molecular Biology 3, 2004; that single runs don't show it: Kalibera and Jones, "Rigorous
///    Benchmarking in Reasonable Time", ISMM 2013);
///  - the machine: a step follows the reference kernel with an exponent of 0 to kLargestMachineExponent
///    (docs/flatness.md); what the kernel differs by, beyond what it does between the runs of a side, and the
///    time waited for a core may be in what was measured.
/// Throws kInvalidArgument for a run with fewer than 16 windows, or for no run.
RunComparison compare_runs(std::span<const RunReport> first, std::span<const RunReport> second);
inline constexpr double kBetweenRuns = 0.04;  // of the logarithm
inline constexpr int kBetweenRunsDegrees = 4;
inline constexpr double kLargestMachineExponent = 1.5;
/// The same for records with one run each, and compares their settings too. Throws kInvalidArgument for other
/// records.
RunComparison compare_records(std::span<const RunRecord> first, std::span<const RunRecord> second);

/// Text for the console; `first` and `second` are the names of the runs in it.
std::string comparison_text(const RunComparison& comparison, const std::string& first,
                            const std::string& second);
/// The comparison as a record, for a page: the conclusion, tables, and the step times of both sides in one
/// plot.
RunRecord comparison_record(const RunComparison& comparison, const std::string& first_name,
                            const std::string& second_name);

}  // namespace isochron::observe
