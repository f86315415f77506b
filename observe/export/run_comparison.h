// Compares two runs: the ratio of their step times, with an interval, and their other differences. Each side
// may also be several runs of the same program, which then show how much such runs differ from each other.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/run_record.h"

namespace isochron::observe {

/// A quantity of both runs, as text.
struct ComparedQuantity {
  std::string name;
  std::string first;
  std::string second;
  std::string change;  // "+12.3 %"; empty: not a number
};

/// The measured ratio of the second run's level to the first's, and a 95 % interval for the ratio of the
/// programs themselves.
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
  RunReport first;  // the run, or the one with the median step time of several
  RunReport second;
  std::vector<ComparedQuantity> quantities;
  std::vector<ComparedQuantity> settings;     // settings and other entries that differ
  std::vector<ComparedQuantity> environment;  // differences of the machines
  std::string conclusion;                     // one sentence
};

/// Compares the main classes' windows after warm-up. A run's level is the midmean of the logarithms of its
/// windows' medians (or means). Its error has these parts:
///  - Within a run: estimated by the circular block bootstrap (statistics.h).
///  - Between runs: even runs of the same program differ, because their memory pages and the other programs
///  on
///    the machine do. The error is pooled from a prior deviation of kBetweenRuns, worth kBetweenRunsDegrees
///    degrees of freedom, and the deviation of the given runs (the moderated t of Smyth, "Linear Models and
///    Empirical Bayes Methods", Statistical Applications in Genetics and Molecular Biology 3, 2004). Single
///    runs don't show it: Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013.
///  - The machine: a step's time follows the reference kernel's with an exponent of 0 to
///    kLargestMachineExponent (docs/flatness.md). The interval is widened by what may be due to the machine:
///    the difference of the kernel's times between the sides, beyond its variation within a side, and the
///    time spent waiting for a core.
/// Throws kInvalidArgument for a run with fewer than 16 windows, or for no run.
RunComparison compare_runs(std::span<const RunReport> first, std::span<const RunReport> second);
inline constexpr double kBetweenRuns = 0.04;  // of the logarithm
inline constexpr int kBetweenRunsDegrees = 4;
inline constexpr double kLargestMachineExponent = 1.5;
/// Compares records with one run each, including their settings. Throws kInvalidArgument for other records.
RunComparison compare_records(std::span<const RunRecord> first, std::span<const RunRecord> second);

/// Text for the console, in which the runs are called `first` and `second`.
std::string comparison_text(const RunComparison& comparison, const std::string& first,
                            const std::string& second);
/// The comparison as a record, for a page: the conclusion, tables, and the step times of both sides in one
/// plot.
RunRecord comparison_record(const RunComparison& comparison, const std::string& first_name,
                            const std::string& second_name);

}  // namespace isochron::observe
