// Runs side by side: how much longer a step of the second takes than one of the first, with an interval, and
// what else is different. Either may be several runs of the same: only these can show how much runs differ.
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
  std::string change;  // "+12.3 %"; empty where there is none to state
};

/// The second's level over the first's, as measured, and the 95 % interval of what the programs differ by.
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
  std::optional<double> machine;  // the reference kernel's time, the second's over the first's
  double first_waited = 0;        // share of the time, for a core that other programs had
  double second_waited = 0;
  int first_runs = 1;
  int second_runs = 1;
  RunReport first;  // of several runs, the one whose steps are in the middle
  RunReport second;
  std::vector<ComparedQuantity> quantities;
  std::vector<ComparedQuantity> settings;     // those that differ, and what else the records say differently
  std::vector<ComparedQuantity> environment;  // the same of the machine
  std::string conclusion;                     // one sentence
};

/// Compares the main classes' windows after warm-up. A run's level is the midmean of its windows' medians (or
/// means) in logarithms; what it can be off by is
///  - within the run: by the circular block bootstrap (statistics.h);
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
/// The same for records with one run each, settings included. Throws kInvalidArgument for others.
RunComparison compare_records(std::span<const RunRecord> first, std::span<const RunRecord> second);

/// For the console; `first` and `second` are what the runs are called there.
std::string comparison_text(const RunComparison& comparison, const std::string& first,
                            const std::string& second);
/// As a record, for a page: the conclusion, tables, and both sides' step times in one plot.
RunRecord comparison_record(const RunComparison& comparison, const std::string& first_name,
                            const std::string& second_name);

}  // namespace isochron::observe
