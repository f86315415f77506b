// The data of a recorded run before any conclusion: windows, samples, spikes, totals and the machine. Reports
// are made from it (report.h), at once or later from a file. So a run can be judged again, with other bounds
// or by a newer release, and two runs can be compared. run_record.h describes the file.
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
  std::string unit = "iteration";         // what the durations are of, in messages
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
  int64_t total_ns = 0;  // of all its timed iterations
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

/// The iterations of another program, given only by their durations in ns, in order; the first `warmup` are
/// left out. Throws kInvalidArgument if none remains, if one isn't above 0 or is above 2^62, or if their
/// median is below kLeastDurationNs, where rounding to whole ns would hide what a verdict looks for.
inline constexpr double kLeastDurationNs = 50;
RunData run_data(std::span<const double> durations_ns, std::string name, int64_t warmup = 0,
                 ReportOptions options = {});

}  // namespace isochron::observe
