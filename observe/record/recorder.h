// Records every iteration of a loop of any length in fixed memory: its duration, split into phases; windows
// for the flatness verdict; a histogram; spikes with their owners; samples of the process. Allocates only at
// construction.
//
//   Recorder recorder({.gauges = {...}});
//   for (...) {
//     recorder.begin_iteration();
//     { PhaseScope scope(recorder, Phase::kDataWait); batch = next(); }
//     { PhaseScope scope(recorder, Phase::kCompute); step(batch); }
//     recorder.end_iteration();
//   }
//   RunReport report = make_report(recorder, "my loop");   // report.h
//
// A timed iteration costs two reads of the clock, two more for each scope, and some ten ns. If that exceeds
// `timing_share` of the time, only a random sample of the iterations is timed, and the others cost a few ns
// each. Quantiles and means are then those of the sample; counts and allocations always cover all iterations.
// `overhead()` returns the recorder's own cost and the share of timed iterations. A recorder must be used by
// one thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/observe/host/machine.h"
#include "isochron/observe/record/event_log.h"
#include "isochron/observe/record/rank_series.h"
#include "isochron/observe/statistics/windows.h"

namespace isochron::observe {

/// A number of the caller's that is sampled too, such as bytes in use, cached items or file handles.
struct Gauge {
  std::string name;
  int64_t (*read)(void* context) = nullptr;  // must not allocate
  void* context = nullptr;
  bool cumulative = false;  // a total that only grows; its rate is judged
};

struct RecorderOptions {
  int classes = 4;          // number of step classes, 330 KB each; higher numbers count as the last one
  double spike_factor = 2;  // a spike lasts longer than this times its class's usual median
  int64_t sample_interval_ns = 5'000'000;  // doubles whenever the samples are full
  bool reference_kernel = true;            // time the fixed kernel between iterations
  // Upper limits, as shares of the time.
  double timing_share = 0.0011;     // timing iterations; twice that at first; 0: all are timed
  double reference_share = 0.0008;  // the reference kernel, in (0, 1]
  double sampling_share = 0.0008;   // samples of the process, in (0, 1]; slow sensors get half of this
  int64_t (*heap_allocations)() = nullptr;     // total made by this project; read with the clock
  int64_t (*library_allocations)() = nullptr;  // total made inside libraries' calls; sampled
  std::vector<Gauge> gauges = {};              // at most kMaxGauges
  int64_t (*clock)() = now_ns;                 // monotonic ns; a simulated one makes a run exact
  SensorSource* sensors = nullptr;             // must outlive the recorder; null: the machine's own
};

struct Spike {
  int64_t iteration = 0;
  int64_t duration_ns = 0;
  int64_t usual_ns = 0;
  Phase owner = Phase::kUnexplained;  // the phase that exceeds its usual time most
  const char* label = nullptr;        // of the owner's longest labelled scope in that iteration
};

/// Everything sampled at one moment between two iterations.
struct Sample {
  static constexpr int kMaxGauges = 12;
  int64_t iteration = 0;  // iterations done
  int64_t time_ns = 0;
  std::array<int64_t, kCounterCount> counters{};
  SensorReading sensors;
  int64_t heap_allocations = 0;
  int64_t library_allocations = 0;
  int64_t event_bytes = 0;    // bytes written to event files
  int64_t slow_readings = 0;  // so far, of the slow sensors; other samples repeat the latest values
  std::array<int64_t, kMaxGauges> gauges{};
};

/// One sampled quantity over the run, named as in the reports ("rss_bytes", "graph_nodes", a gauge's name).
struct NamedSeries {
  std::string name;
  bool cumulative = false;
  std::vector<double> values;
};

/// Findings in single iterations: one iteration after each sample is inspected.
struct InspectedIterations {
  int64_t iterations = 0;
  int64_t subnormal = 0;                            // those that computed with subnormal numbers
  std::array<int64_t, kPhaseCount> gained_bytes{};  // net gain in tensors of this thread, by phase
  int64_t gained_elsewhere_bytes = 0;               // net gain by other threads
};

/// Labels of spikes. If several apply, the first one in this order is used: the iteration traced a plan;
/// another thread wrote weights at the same time, which takes a core from the step; the iteration ran a
/// different plan than the one before; it took 1 MiB or more from the system and kept it, as when a pool
/// grows; it wrote weights itself, outside the checkpoint phase.
inline constexpr const char* kTracedLabel = "a plan traced";
inline constexpr const char* kOtherPlanLabel = "another plan";
inline constexpr const char* kTookMemoryLabel = "memory taken from the system";
inline constexpr const char* kSavedLabel = "weights written";
inline constexpr const char* kSavedBesideLabel = "weights written beside the step";

/// The recorder's own cost.
struct Overhead {
  double per_iteration_ns = 0;  // mean, from costs measured at construction; includes clock reads and scopes
  double timed_share = 1;       // of the iterations
  double sampling_ns = 0;  // in samples and the reference kernel so far; not part of any iteration's duration
  size_t bytes = 0;        // memory, all of it allocated at construction
};

/// Totals over the sealed part of the run.
struct RunTotals {
  int64_t iterations = 0;
  int64_t timed_iterations = 0;   // all times below, except `elapsed_ns`, are those of timed iterations
  int64_t warmup_iterations = 0;  // before `seal`
  int64_t warmup_ns = 0;
  int64_t total_ns = 0;    // inside iterations
  int64_t elapsed_ns = 0;  // from the first begin to the last end
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  std::array<int64_t, kPhaseCount> phase_ns{};  // inside iterations
  /// Between iterations, including samples. Time outside scopes counts only after a timed iteration.
  std::array<int64_t, kPhaseCount> between_phase_ns{};
  int64_t heap_allocations = 0;         // inside iterations, without heap_allocations_beside
  int64_t heap_allocations_beside = 0;  // in the phases kCallbacks, kCheckpoint and kLog
  int64_t allocating_iterations = 0;    // iterations that made any of heap_allocations
  int64_t spikes = 0;
  int64_t spike_excess_ns = 0;  // time of spikes beyond the usual duration
  std::array<int64_t, kPhaseCount> spikes_by_owner{};
  std::array<int64_t, kPhaseCount> spike_excess_by_owner_ns{};
};

class Recorder {
 public:
  static constexpr int kMaxSamples = 256;
  static constexpr int kMaxRecentSpikes = 512;
  static constexpr int kMaxLargestSpikes = 16;
  static constexpr int kMaxTracings = 512;

  /// Throws kInvalidArgument for options out of range (classes outside [1, 64], more than Sample::kMaxGauges
  /// gauges, a gauge without reader or name, spike_factor <= 1, sample_interval_ns < 1, a share out of its
  /// range, no clock).
  explicit Recorder(RecorderOptions options = {});

  /// `step_class` >= 0 distinguishes steps that differ by design, for example in their plan or accumulation
  /// phase.
  void begin_iteration(int step_class = 0) {
    class_ = step_class < last_class_ ? step_class : last_class_;
    phase_ = Phase::kUnexplained;
    if (options_.heap_allocations != nullptr) heap_mark_ = options_.heap_allocations();
    heap_in_step_ = 0;
    timed_ = untimed_left_ == 0;
    if (timed_ || marked_) begin_timed();
    inside_ = true;
  }
  /// Sets the class of the present iteration, if it is known only during the iteration.
  void set_class(int step_class) { class_ = step_class < last_class_ ? step_class : last_class_; }
  /// Must follow `begin_iteration`, with every scope closed.
  void end_iteration() {
    look_for_traces();
    if (timed_) return end_timed();
    if (options_.heap_allocations != nullptr) charge_allocations();
    inside_ = false;
    totals_.heap_allocations += heap_in_step_;
    totals_.allocating_iterations += heap_in_step_ > 0;
    ++totals_.iterations;
    --untimed_left_;
    windows_[static_cast<size_t>(class_)].pass();
  }
  /// Whether the present iteration is timed; between iterations, whether the latest one was.
  bool timed() const { return timed_; }
  /// Moves `ns` of the present iteration's time from phase `from` to phase `to`, but at most the time that
  /// closed scopes have spent in `from`.
  void reassign(Phase from, Phase to, int64_t ns) {
    if (!inside_ || !timed_) return;
    int64_t& taken = phase_ns_[static_cast<size_t>(from)];
    ns = ns < taken ? ns : taken;
    taken -= ns;
    phase_ns_[static_cast<size_t>(to)] += ns;
  }

  /// For several ranks that train together; `own` is this rank's number. Allocates, so call it before the
  /// loop.
  void join_ranks(int own, int ranks) { rank_series_ = RankSeries(own, ranks); }
  /// Call it after each update, with the times that each rank took for it and the time that this rank waited
  /// for communication.
  void add_ranks(std::span<const RankTimes> times, int64_t communication_ns) {
    rank_series_.add(totals_.iterations, times, communication_ns);
  }
  const RankSeries& rank_series() const { return rank_series_; }
  /// Sets the descriptions of all ranks for the report, once the ranks have exchanged them. They are empty
  /// before that.
  void describe_ranks(std::vector<RankDescription> ranks) { rank_descriptions_ = std::move(ranks); }
  const std::vector<RankDescription>& rank_descriptions() const { return rank_descriptions_; }
  /// This rank's own description, for the time since `seal`.
  RankDescription describe_rank() const;

  /// Ends warm-up. Of the data recorded so far, only totals are kept; windows, histogram, spikes and samples
  /// start again. Call it between iterations, once the plan is sealed and the queues are full.
  void seal();
  /// The windows and totals of the sealed part of the run, from which another process can continue recording
  /// it. Only the same build on the same machine can read them. Reuses the memory of `memory` and replaces
  /// its content.
  std::string baseline(std::string memory = {}) const;
  /// Like `seal`, but continues from the baseline of an earlier process: that process's windows become part
  /// of the run, so a restart doesn't hide a drift. Throws kBadFormat, without changing anything, for
  /// anything but a baseline of this build.
  void seal_and_continue(std::string_view baseline);

  const RunTotals& totals() const { return totals_; }
  /// Classes with at least one iteration.
  std::vector<int> classes() const;
  /// Closed windows of a class, oldest first.
  const WindowSeries& windows(int step_class) const { return windows_.at(static_cast<size_t>(step_class)); }
  /// The quantile of all recorded durations, in ns, with an error of at most 0.2 %. It is 0 before the first
  /// iteration. Throws kOutOfRange unless `fraction` is in [0, 1].
  double duration_quantile(double fraction) const;

  const std::vector<Sample>& samples() const { return samples_; }
  std::vector<NamedSeries> series() const;

  /// The newest spikes, oldest first, and the largest ever, largest first.
  std::vector<Spike> recent_spikes() const;
  const std::vector<Spike>& largest_spikes() const { return largest_spikes_; }

  const InspectedIterations& inspected() const { return inspected_; }
  /// The newest iterations that traced a plan although the iteration before didn't, oldest first.
  std::vector<int64_t> tracings() const;
  /// How many written files the process had noted (core/files/written_files.h) when this run began.
  int64_t files_before() const { return files_before_; }
  /// The time in ns that samples and the reference kernel would have taken without interruptions.
  double undisturbed_sampling_ns() const {
    return sample_cost_.sum_ns + slow_cost_.sum_ns + reference_cost_.sum_ns;
  }

  /// Takes a sample now. Call it between iterations; `end_iteration` takes one automatically when one is due.
  void sample();
  Overhead overhead() const;
  /// Rare events of the whole process since this recorder was made.
  const EventLog& events() const { return events_; }
  int64_t begin_ns() const { return made_ns_; }
  /// The number of threads of the reference kernel: the whole team if the first iterations after `seal` used
  /// the team, else 1.
  int reference_threads() const { return reference_kernel_.threads(); }
  const RecorderOptions& options() const { return options_; }

 private:
  friend class PhaseScope;
  Phase enter(Phase phase) {
    if (reads_clock()) {
      charge(options_.clock());
      scopes_ += inside_;
    } else if (options_.heap_allocations != nullptr) {
      charge_allocations();
    }
    const Phase outer = phase_;
    phase_ = phase;
    return outer;
  }
  void leave(Phase outer, int64_t entered_ns, const char* label) {
    if (reads_clock()) {
      const int64_t now = options_.clock();
      charge(now);
      const size_t phase = static_cast<size_t>(phase_);
      if (label != nullptr && now - entered_ns > label_ns_[phase]) {
        label_ns_[phase] = now - entered_ns;
        labels_[phase] = label;
      }
    } else if (options_.heap_allocations != nullptr) {
      charge_allocations();
    }
    phase_ = outer;
  }
  /// Scopes between iterations are always timed, because they are few and long.
  bool reads_clock() const { return timed_ || !inside_; }
  void charge(int64_t now) {
    if (marked_)
      (inside_ ? phase_ns_ : totals_.between_phase_ns)[static_cast<size_t>(phase_)] += now - mark_ns_;
    mark_ns_ = now;
    marked_ = true;
    if (looking_) charge_memory();
    if (inside_ && options_.heap_allocations != nullptr) charge_allocations();
  }
  void charge_allocations() {
    const int64_t made = options_.heap_allocations();
    const bool beside = phase_ == Phase::kCallbacks || phase_ == Phase::kCheckpoint || phase_ == Phase::kLog;
    (beside ? totals_.heap_allocations_beside : heap_in_step_) += made - heap_mark_;
    heap_mark_ = made;
  }
  void look_for_traces() {
    const int64_t traces = counter_value(Counter::kTraces);
    if (traces != traces_mark_ || traced_) [[unlikely]]
      note_tracing(traces);
  }
  void note_tracing(int64_t traces);
  void charge_memory();
  void begin_look();
  void end_look();
  const char* label_of_happening() const;
  void begin_timed();
  void end_timed();
  void draw_untimed();
  double timed_cost_ns() const;
  double timing_cost_ns() const;
  void time_reference(WindowSeries& series);
  void read_waited();
  void note_spike(int64_t duration_ns, const WindowSeries& series);
  void calibrate();
  void restart();
  size_t bytes() const;

  RecorderOptions options_;
  int last_class_ = 0;
  int class_ = 0;
  bool inside_ = false;
  bool timed_ = true;
  bool marked_ = false;       // whether `mark_ns_` holds the beginning of the present phase
  int64_t untimed_left_ = 0;  // untimed iterations until the next timed one
  int64_t timed_here_ = 0;    // iterations timed since `seal` by this process
  int64_t scopes_ = 0;        // scopes entered in them
  uint64_t random_ = 1;
  Phase phase_ = Phase::kUnexplained;
  int64_t begin_ns_ = 0;
  int64_t mark_ns_ = 0;
  int64_t run_begin_ns_ = 0;
  int64_t heap_mark_ = 0;
  int64_t heap_in_step_ = 0;
  int64_t next_sample_ns_ = 0;
  int64_t sample_interval_ns_ = 0;
  PhaseTimes phase_ns_{};
  PhaseTimes label_ns_{};
  std::array<const char*, kPhaseCount> labels_{};
  RunTotals totals_;
  double steady_ns_ = 0;  // of all classes of steps
  std::vector<WindowSeries> windows_;
  RankSeries rank_series_;
  std::vector<RankDescription> rank_descriptions_;
  std::vector<Sample> samples_;
  std::vector<Spike> recent_spikes_;
  std::vector<Spike> largest_spikes_;
  EventLog events_;
  int64_t made_ns_ = now_ns();
  std::unique_ptr<Sensors> own_sensors_;  // if the options don't give any
  SensorSource& sensors_;
  SensorReading reading_;  // the latest
  int64_t next_slow_ns_ = 0, slow_readings_ = 0;
  int64_t waited_ns_ = 0, waited_at_ns_ = 0;     // at the latest look
  bool look_due_ = false, looking_ = false;      // inspect the next timed iteration; this one
  int64_t bytes_mark_ = 0, own_bytes_mark_ = 0;  // while looking
  InspectedIterations inspected_;
  bool traced_ = false;  // in the latest iteration
  int64_t traces_mark_ = 0, switches_mark_ = 0, reserved_mark_ = 0, weights_mark_ = 0, own_weights_mark_ = 0;
  std::vector<int64_t> tracings_;
  int64_t tracings_ever_ = 0;
  int64_t files_before_ = 0;
  std::vector<int64_t> looked_at_ns_;  // total time of each class at that reading
  ReferenceKernel reference_kernel_;
  bool reference_chosen_ = false;  // whether one thread or the team has been chosen
  int64_t parallel_loops_ = 0;     // before the choice
  double reference_ns_ = 0;        // total cost of its timings
  int64_t references_ = 0;
  double iteration_cost_ns_ = 0, scope_cost_ns_ = 0, untimed_cost_ns_ = 0;
  double played_quiet_ns_ = 0;  // the lowest time of a simulated reference kernel
  double sampling_ns_ = 0;
  /// The cost of samples, slow sensors or the reference kernel: the cheapest one, and the sum, in which each
  /// counts at most a few times the cheapest.
  struct Cost {
    int64_t cheapest_ns = INT64_MAX;
    double sum_ns = 0;
    int64_t count = 0;
    void add(int64_t ns);
    double mean_ns() const { return sum_ns / static_cast<double>(count); }
  };
  Cost sample_cost_, slow_cost_, reference_cost_;
};

/// Charges the time of a scope, without scopes inside it, to `phase`. `label` names the owner of a spike,
/// such as "collection"; the string must outlive the recorder.
class [[nodiscard]] PhaseScope {
 public:
  PhaseScope(Recorder& recorder, Phase phase, const char* label = nullptr)
      : recorder_(recorder), outer_(recorder.enter(phase)), entered_ns_(recorder.mark_ns_), label_(label) {}
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;
  ~PhaseScope() { recorder_.leave(outer_, entered_ns_, label_); }

 private:
  Recorder& recorder_;
  Phase outer_;
  int64_t entered_ns_;
  const char* label_;
};

/// An iteration as a scope: calls begin_iteration and end_iteration.
class [[nodiscard]] IterationScope {
 public:
  explicit IterationScope(Recorder& recorder, int step_class = 0) : recorder_(recorder) {
    recorder.begin_iteration(step_class);
  }
  IterationScope(const IterationScope&) = delete;
  IterationScope& operator=(const IterationScope&) = delete;
  ~IterationScope() { recorder_.end_iteration(); }

 private:
  Recorder& recorder_;
};

}  // namespace isochron::observe
