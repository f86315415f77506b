// Two runs side by side: how much longer a step of one takes, with an interval, and what else is different.
#pragma once

#include <string>
#include <vector>

#include "isochron/observe/report.h"
#include "isochron/observe/run_record.h"

namespace isochron::observe {

/// A quantity in both runs, as text.
struct ComparedQuantity {
  std::string name;
  std::string first;
  std::string second;
  std::string change;  // "+12.3 %"; empty where there is none to state
};

/// The second run's level over the first's.
struct TimeRatio {
  double ratio = 1;
  double low = 0;  // 95 % interval
  double high = 0;
  /// Whether the interval lies on one side of 1.
  bool differs() const { return low > 1 || high < 1; }
};

struct RunComparison {
  TimeRatio medians;  // of a step, over the runs' windows
  TimeRatio means;
  std::vector<ComparedQuantity> quantities;
  std::vector<ComparedQuantity> settings;     // those that differ, and what else the records say differently
  std::vector<ComparedQuantity> environment;  // the same of the machine
  std::string conclusion;                     // one sentence
};

/// Compares the main classes' windows after warm-up. Each run's level is the midmean of its windows' medians
/// (or means), its interval by the circular block bootstrap (statistics.h); the interval of the ratio is made
/// of both by recovering the variances of their logarithms: Zou and Donner, "Construction of confidence
/// limits about effect measures: a general approach", Statistics in Medicine 27, 2008. Throws
/// kInvalidArgument for a run with fewer than 8 windows.
RunComparison compare_runs(const RunReport& first, const RunReport& second);
/// The same for records with one run each, settings included. Throws kInvalidArgument for others.
RunComparison compare_records(const RunRecord& first, const RunRecord& second);

/// For the console; `first` and `second` are what the runs are called there.
std::string comparison_text(const RunComparison& comparison, const std::string& first,
                            const std::string& second);
/// As a record, for a page: the conclusion, tables, and both runs' step times in one plot.
RunRecord comparison_record(const RunComparison& comparison, const RunReport& first, const RunReport& second,
                            const std::string& first_name, const std::string& second_name);

}  // namespace isochron::observe
