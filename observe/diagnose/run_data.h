// The raw data of a recorded run: windows, samples, spikes, totals and the machine. A report (report.h) can
// be made from it immediately, or later from a file (run_record.h). So a run can be judged again with other
// bounds or by a newer release, and two runs can be compared.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/observe/diagnose/cause.h"
#include "isochron/observe/host/machine.h"
#include "isochron/observe/interleaved/ab_comparison.h"
#include "isochron/observe/record/event_log.h"
#include "isochron/observe/record/recorder.h"
#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

struct ReportOptions {
  FlatnessOptions time;
  FlatnessOptions levels{.bound = 0.02};  // memory, disk and counts
  std::string unit = "iteration";         // what a duration measures, for messages
  Evidence facts;                         // what the caller knows beyond the recorder
};

/// A spike with a copy of its label.
struct SpikeRecord {
  int64_t iteration = 0;
  int64_t duration_ns = 0;
  int64_t usual_ns = 0;
  Phase owner = Phase::kUnexplained;
  std::string label;
};

/// The closed windows of a class of steps, oldest first.
struct ClassData {
  int step_class = 0;
  int64_t total_ns = 0;  // total time of all timed iterations
  std::vector<Window> windows;
};

struct RunData {
  std::string name;
  bool durations_only = false;
  bool allocations_counted = false;
  RunTotals totals;
  double p50_ns = 0;
  double p99_ns = 0;
  double p999_ns = 0;
  std::vector<ClassData> classes;
  std::vector<int64_t> sample_iterations;
  std::vector<NamedSeries> series;
  double spike_factor = 2;                  // of the recorder's options
  std::vector<SpikeRecord> recent_spikes;   // oldest first
  std::vector<SpikeRecord> largest_spikes;  // largest first
  int64_t begin_ns = 0;                     // when recording began, on the clock of the events
  EventRecords events;
  Overhead overhead;
  MachineDescription machine;
  TwinTurns turns;                // turns with a twin; empty if there was none
  std::optional<RankData> ranks;  // if several ranks train together
  ReportOptions options;
};

/// The data that `recorder` holds now. Throws kInvalidArgument if it has no iteration since its seal.
RunData run_data(const Recorder& recorder, std::string name, ReportOptions options = {});

/// The run of another program, given by its iterations' durations in ns, in order, without the first
/// `warmup`. Throws kInvalidArgument if none remains, if a duration is not in (0, 2^62], or if their median
/// is below kMinDurationNs: rounding to whole ns would then hide the changes that a verdict looks for.
inline constexpr double kMinDurationNs = 50;
RunData run_data(std::span<const double> durations_ns, std::string name, int64_t warmup = 0,
                 ReportOptions options = {});

}  // namespace isochron::observe
