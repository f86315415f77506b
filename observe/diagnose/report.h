// The report on a recorded loop: its verdict and causes. It can be printed as a console table that compares
// several loops, as JSON, and as CSV. Used by `compare`, `train` and user-defined loops.
//
// JSON, one object per report (numbers that are infinite or unknown are null):
//   name, iterations, warmup_iterations, seconds
//   duration_ns      {min, mean, p50, p99, p999, max}
//   time             verdict: {kind, machine_slowed, change, low, high, statistic, bound, confidence,
//                    first_tenth, last_tenth, slope, slope_low, slope_high, mann_kendall_p, kendall_tau,
//                    change_point_window, change_point_p, windows, warmup_windows, warmup_change,
//                    smallest_detectable_change, iterations_to_decide, reason}
//   series           [{name, cumulative, first, last, per_iteration, verdict?}]; a verdict for levels only
//   phases_ns        {phase: mean ns per iteration}
//   between_phases_ns  the same for what lies between iterations
//   spikes           {count, owner, label, period, period_share, time_share,
//                    largest: [{iteration, duration_ns, owner, label}]}
//   causes           [{name, fix, evidence, consequences: [name]}]
//   allocations      {heap_per_step, library_per_step, system_per_step, allocating_steps}
//   drift_seconds    growing runs: what the growth cost (else null)
//   times_slower     mean iteration against the cured form's;  median_times_slower the same of medians
//   events           {kind: {count, total_ns, longest_ns}} for kinds that happened
//   retraces         [{name, before, after, cost_ns, at_s}], of those that are kept (event_log.h)
//   source           `isochron analyze` alone: {program, phase, each, notes, other_phases, ranks}
//   overhead         {per_iteration_ns, timed_share (of iterations), share (of time), sampling_ns, bytes}
//   environment      {cpu, cores, usable_cores, core_quota, memory_bytes, memory_limit_bytes,
//                    transparent_huge_pages, governor, kernel, virtual_machine, isa}
//
// CSV, one row per window: class, window, first_iteration, last_iteration, iterations, median_ns, mean_ns,
// max_ns, reference_ns, reference_mean_ns (empty where not measured), waited_ns (an iteration),
// quiet_iterations, quiet_median_ns, quiet_mean_ns, then the mean ns per iteration of every phase.
#pragma once

#include <array>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/observe/diagnose/run_data.h"

namespace isochron::observe {

struct Durations {  // ns
  double min = 0;
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};

/// A sampled quantity, such as memory, disk use or a count.
struct SeriesReport {
  std::string name;
  bool cumulative = false;
  double first = 0;
  double last = 0;
  double per_iteration = 0;                // gained over the run
  std::optional<FlatnessVerdict> verdict;  // levels only
  std::vector<double> values = {};         // one a sample; not in the JSON
};

struct SpikeReport {
  int64_t count = 0;
  double factor = 2;  // a spike lasts longer than this times the usual duration
  /// The phase and label that own the newest spikes; if there are several owners, the one that cost most
  /// time. If that owner has neither a label nor a period, an owner that has both is named instead, provided
  /// that it cost at least a quarter as much.
  Phase owner = Phase::kUnexplained;
  std::string label;
  std::optional<Period> period;      // of that owner's spikes
  double time_share = 0;             // the excess of all spikes, as a share of the run's time
  std::vector<SpikeRecord> largest;  // largest first
  std::vector<SpikeRecord> recent;   // the newest, oldest first

  /// The label, or the phase's name if there is no label.
  std::string owner_name() const { return label.empty() ? std::string(phase_name(owner)) : label; }
};

/// A closed window of one class.
struct WindowReport {
  int step_class = 0;
  Window window;
};

struct RunReport {
  std::string name;
  bool durations_only = false;     // another program's run: memory, phases and machine are unknown
  std::string unit = "iteration";  // what a duration measures
  int64_t iterations = 0;
  int64_t warmup_iterations = 0;
  double seconds = 0;
  Durations duration_ns;
  FlatnessOptions options;
  FlatnessVerdict time;
  /// Only for growing runs: how much longer the run took than it would have at the speed of its first tenth.
  std::optional<double> drift_seconds;
  FlatnessOptions level_options;
  std::vector<SeriesReport> series;
  std::vector<int64_t> sample_iterations;              // iterations done when the series' values were read
  std::array<double, kPhaseCount> phase_ns{};          // mean per iteration
  std::array<double, kPhaseCount> between_phase_ns{};  // the same, between iterations
  SpikeReport spikes;
  std::vector<Cause> causes;
  std::optional<double> heap_allocations_per_step;
  std::optional<double> library_allocations_per_step;
  double system_allocations_per_step = 0;
  int64_t allocating_steps = 0;
  std::optional<double> times_slower;         // mean iteration against the cured form's
  std::optional<double> median_times_slower;  // the same ratio of medians, which pauses don't affect
  int64_t begin_ns = 0;                       // when recording began, on the events' clock
  EventRecords events;
  Overhead overhead;
  MachineDescription machine;
  std::optional<RankData> ranks;  // if several train together
  std::vector<WindowReport> windows;
  Evidence evidence;

  /// The sampled quantity of that name, or nullptr.
  const SeriesReport* find_series(std::string_view name_of_series) const;
};

/// The verdict on the iteration time, based on the windows and on the turns beside a twin, if there are any.
/// For windows that no recorder could have made, throws like judge_classes.
FlatnessVerdict judge_time(const RunData& data);
/// Judges a run. Throws like `judge_time`.
RunReport make_report(const RunData& data);
/// The same with a given verdict on time. The causes are based on that verdict.
RunReport make_report(const RunData& data, FlatnessVerdict time);
/// Reports on the data of `recorder`, or on another program's durations. Takes the arguments of `run_data`.
inline RunReport make_report(const Recorder& recorder, std::string name, const ReportOptions& options = {}) {
  return make_report(run_data(recorder, std::move(name), options));
}
inline RunReport make_report(std::span<const double> durations_ns, std::string name, int64_t warmup = 0,
                             const ReportOptions& options = {}) {
  return make_report(run_data(durations_ns, std::move(name), warmup, options));
}

/// Sets times_slower and median_times_slower to the ratios of the times of `report` to those of `cured` (1
/// for the cured form itself), and recomputes the causes.
void compare_with_cured(RunReport& report, const RunReport& cured);

/// Reports side by side, in two tables with one line per loop: times and their verdict; then the resources
/// used and the first cause. Reasons and all causes follow. Columns are aligned; ends with a newline.
std::string summary_text(std::span<const RunReport> reports);
void print_table(std::FILE* file, std::span<const RunReport> reports);
/// One JSON object; `indent` < 0 gives a single line.
std::string to_json(const RunReport& report, int indent = 2);
/// Windows of one report, with a header line.
std::string to_csv(const RunReport& report);

/// "3.1 us", "16.9 ms": three significant digits.
std::string duration_text(double ns);
/// "growing +8.8 %": the verdict and the largest change.
std::string verdict_cell(const FlatnessVerdict& verdict);
/// "16.4x", "0.37x", "18300x": a ratio of two times.
std::string ratio_text(double ratio);
/// "512 B", "3.40 MB".
std::string bytes_text(double bytes);
/// "+3.40 MB", "-512 B": the change of a level in bytes from the median of the run's first tenth to that of
/// its last; if it wasn't judged, from its first to its last value.
std::string gained_text(const SeriesReport& series);

/// The windows of the class of steps that took most of the time, in order.
std::vector<Window> main_windows(const RunReport& report);

}  // namespace isochron::observe
