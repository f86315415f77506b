#include "isochron/apps/compare/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <variant>

#include "isochron/apps/allocation_counter.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/standard_streams.h"
#include "isochron/core/text/count_text.h"
#include "isochron/observe/export/run_record.h"
#include "isochron/observe/interleaved/interleaved_runner.h"
#include "isochron/observe/interleaved/worker.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::RunReport;

/// Maximum number of recorded iterations; then a run that doesn't end is stopped.
constexpr int64_t kIterationLimit = 50'000'000;

/// The sampling interval is short, so that even a loop of a tenth of a second has enough samples for a
/// verdict on its memory and disk use.
constexpr int64_t kSampleIntervalNs = 1'000'000;

/// More than the recorder's defaults: the loops are short, and every iteration with a spike is examined.
constexpr double kTimingShare = 0.05, kWatchingShare = 0.01;

/// A turn is short compared with the run, so that changes of the machine affect all parts of a run alike, but
/// long compared with the milliseconds that paused threads need to spread over the cores again.
constexpr double kTurnSeconds = 0.2;

/// The maximum time for making a table, as a multiple of the time it is given.
constexpr double kTableTimes = 1.5;

/// An unsettled loop is judged again when its running time has grown by this factor.
constexpr double kNextLook = 1.5;

/// How often a loop may alternate with its twin after its run and be judged again.
constexpr int kLooksBeside = 3;

/// If the relative standard error of a level beside the twin is larger than this, more turns are worth their
/// time: two such levels couldn't show that a change lies within the bound.
constexpr double kTwinErrorTooLarge = 0.008;

constexpr int64_t kShortEpochNs = 5'000'000;  // about the length of a turn beside the twin
constexpr int64_t kTimesAtLength = 10;

int64_t least_iterations(const Loop& loop, const CompareOptions& options) {
  return loop.min_iterations * (options.at_length ? kTimesAtLength : 1);
}

/// Whether the loop's time is compared with that of a twin process, which is paused while the loop runs. A
/// loop that is expected to grow needs no twin.
bool has_twin(const Loop& loop, const CompareOptions& options) {
  if (options.iterations > 0 || loop.expected.leaves_time_open()) return false;
  return loop.max_iterations == 0 || loop.expected.allows(Flatness::kFlat);
}

/// How long a loop and its twin take turns.
double turns_seconds(const CompareOptions& options) {
  return std::min(observe::kBesideTwinSeconds, options.seconds);
}

/// The approximate time of a loop, with its warm-up and turns beside a twin.
double usual_seconds(const Loop& loop, const CompareOptions& options) {
  const double beside = turns_seconds(options) + observe::FlatnessOptions{}.max_warmup * options.seconds;
  return options.seconds + (has_twin(loop, options) ? beside : 0);
}

double table_seconds_of(const CompareOptions& options) {
  return options.iterations > 0 ? 0.1 : options.seconds / 5;
}

double usual_seconds(std::span<const Scenario> scenarios, const CompareOptions& options) {
  double sum = 0;
  for (const Scenario& scenario : scenarios) {
    // A loop also needs time to start a process, and its last turn may exceed its time.
    for (const Loop& loop : scenario.loops) sum += usual_seconds(loop, options) + kTurnSeconds;
    sum += static_cast<double>(scenario.tables.size()) * table_seconds_of(options) * kTableTimes;
  }
  return sum;
}

/// A loop that ends by itself is judged on the available data, however short its run was.
observe::ReportOptions report_options(const Loop& loop) {
  observe::ReportOptions options;
  if (loop.max_iterations > 0) options.time.min_seconds = options.levels.min_seconds = 0;
  return options;
}

/// Counts iterations and epochs of one loop, in its own process; waits between its turns.
class Progress {
 public:
  Progress(const Loop& loop, const CompareOptions& options, observe::Recorder& recorder,
           observe::Turns& turns)
      : loop_(loop),
        options_(options),
        recorder_(recorder),
        turns_(turns),
        has_twin_(has_twin(loop, options)),
        in_run_(!has_twin_),
        epoch_began_ns_(observe::running_ns()) {}

  bool next() {
    if (turns_.take_anew()) {
      begin_anew();
      in_run_ = true;
    }
    ++iterations_;
    run_iterations_ += in_run_;
    add_to_turn();
    if (iterations_ % loop_.iterations_per_epoch == 0) end_epoch();
    if (more()) return true;
    recorder_.sample();  // while the loop still holds its data; a short run may have no other sample
    return false;
  }

  /// What was recorded, and the loop's notes.
  std::string record() const {
    observe::RunRecord record{.title = loop_.name, .parts = {}};
    record.parts.push_back({.run = run_data(recorder_, loop_.name, report_options(loop_))});
    observe::PlotSeries epochs{.name = loop_.name, .y = epochs_ns_};
    for (size_t i = 1; i <= epochs_ns_.size(); ++i) epochs.x.push_back(static_cast<double>(i));
    record.parts[0].blocks.push_back(
        observe::Plot{.title = "Time of an epoch", .x_label = "epoch", .y_label = "ns", .series = {epochs}});
    if (loop_.notes) {
      for (std::string& note : loop_.notes())
        record.parts[0].blocks.push_back(observe::Paragraph{.text = std::move(note)});
    }
    return to_json(record);
  }

 private:
  bool more() {
    const bool at_end = loop_.max_iterations > 0 && run_iterations_ == loop_.max_iterations;
    if (at_end && !has_twin_) return false;
    if (options_.iterations > 0) return iterations_ < options_.iterations;
    if (iterations_ >= kIterationLimit) return false;
    if (at_end) {
      turns_.end_run();
    } else if (!turns_.over(observe::running_ns()) || amid_a_short_epoch()) {
      return true;
    }
    const bool ended = ended_ || !turns_.wait([this] { return record(); });
    ended_ = ended;
    // The minimum number of iterations always runs.
    return !ended || epochs_ < options_.epochs || iterations_ < least_iterations(loop_, options_);
  }

  /// Whether the loop is in the middle of a short epoch. Turns contain whole short epochs, so that work done
  /// once per epoch is part of each turn.
  bool amid_a_short_epoch() const {
    return iterations_ % loop_.iterations_per_epoch != 0 && epoch_ns_ < kShortEpochNs;
  }

  /// Adds to the turn what was timed since the last call: an iteration, or an epoch if the loop reports its
  /// iterations at the end of each epoch.
  void add_to_turn() {
    const observe::RunTotals& totals = recorder_.totals();
    if (warm_ && totals.timed_iterations > added_iterations_)
      turns_.add((totals.total_ns - added_ns_) / (totals.timed_iterations - added_iterations_));
    added_iterations_ = totals.timed_iterations;
    added_ns_ = totals.total_ns;
  }

  void begin_anew() {
    recorder_.seal();
    added_iterations_ = added_ns_ = 0;
  }

  void end_epoch() {
    const int64_t now = observe::running_ns();
    ++epochs_;
    epoch_ns_ = now - epoch_began_ns_;
    if (epochs_ <= options_.epochs) {
      epochs_ns_.push_back(static_cast<double>(epoch_ns_));
      if (options_.verbose)
        fmt::print("    Epoch {}, Time: {}\n", epochs_, observe::duration_text(epochs_ns_.back()));
    }
    const bool last = options_.iterations > 0 && iterations_ >= options_.iterations;
    const bool settles = loop_.max_iterations == 0 || has_twin_;
    if (epochs_ == loop_.warmup_epochs && settles && !last) {
      begin_anew();
      warm_ = true;
    }
    epoch_began_ns_ = observe::running_ns();
  }

  const Loop& loop_;
  const CompareOptions& options_;
  observe::Recorder& recorder_;
  observe::Turns& turns_;
  const bool has_twin_;
  bool in_run_;  // false during the turns with the twin before the run
  int64_t iterations_ = 0, run_iterations_ = 0;
  int epochs_ = 0;
  std::vector<double> epochs_ns_;
  bool ended_ = false;
  bool warm_ = false;
  int64_t added_iterations_ = 0, added_ns_ = 0;  // part of the recorder's totals already added to turns
  int64_t epoch_began_ns_;
  int64_t epoch_ns_ = kShortEpochNs;  // the time of the latest epoch
};

std::string run_loop(const Loop& loop, const CompareOptions& options, observe::Turns& turns) {
  // Otherwise a faulty loop's warnings would appear among the results of others.
  if (!options.verbose) ::dup2(STDOUT_FILENO, STDERR_FILENO);
  observe::TurnSensors sensors;
  observe::Recorder recorder({.sample_interval_ns = kSampleIntervalNs,
                              .timing_share = kTimingShare,
                              .reference_share = kWatchingShare,
                              .sampling_share = kWatchingShare,
                              .heap_allocations = allocations_counted() ? heap_allocations : nullptr,
                              .library_allocations = allocations_counted() ? library_allocations : nullptr,
                              .gauges = loop.gauges,
                              .clock = observe::running_ns,
                              .sensors = &sensors});
  Progress progress(loop, options, recorder, turns);
  LoopContext context{recorder, options, [&progress] { return progress.next(); }};
  loop.run(context);
  return progress.record();
}

std::string run_tables(const Scenario& scenario, double seconds) {
  observe::RunRecord record{.title = scenario.name, .parts = {}};
  std::vector<observe::Block>& blocks = record.parts.emplace_back().blocks;
  for (const auto& make_table : scenario.tables) blocks.emplace_back(make_table(seconds));
  return to_json(record);
}

std::string outcome_text(const LoopResult& result) {
  return fmt::format("mean {}, median {} per iteration, {}{}",
                     observe::duration_text(result.report.duration_ns.mean),
                     observe::duration_text(result.report.duration_ns.p50), verdict_cell(result.report.time),
                     result.settled ? "" : ", not settled");
}

/// A loop that takes its turns.
class Running {
 public:
  Running(const Loop& loop, const CompareOptions& options)
      : loop_(loop),
        options_(options),
        ends_(loop.max_iterations > 0 && !has_twin(loop, options)),
        worker_(begin()),
        next_look_(options.seconds) {
    if (has_twin(loop, options)) twin_ = begin();
  }

  /// Warms up the loop and its twin, and lets them take turns for the first time, up to `more_seconds` longer
  /// than usual if the level isn't known well enough by then. The run begins after that.
  void prepare(double more_seconds) {
    if (!twin_) return;
    for (observe::Worker* worker : {worker_.get(), twin_.get()}) {
      while (!worker->ended() && worker->run(kTurnSeconds / 4).iterations == 0) continue;
      // The longest warm-up that a run's verdict allows.
      if (!worker->ended()) worker->run(observe::FlatnessOptions{}.max_warmup * options_.seconds);
    }
    if (!worker_->ended() && !twin_->ended()) take_turns(turns_before_, more_seconds);
  }
  /// The approximate time of the loop, including warm-up and turns beside a twin.
  double usual_seconds() const { return apps::usual_seconds(loop_, options_); }

  /// `more_time`: whether a loop that ends by itself may run longer than the time every loop gets.
  bool wants_turn(bool more_time) const {
    if (worker_->run_ended()) return false;
    if (options_.iterations > 0 || spent_ < options_.seconds) return true;
    if (loop_.max_iterations == 0) return result_.report.iterations < least_iterations(loop_, options_);
    return more_time && !result_.settled;
  }
  void turn() {
    const int64_t began_ns = now_ns();
    worker_->run(kTurnSeconds, spent_ == 0 && twin_);
    // The first turn also creates data and plans.
    spent_ += std::min(2 * kTurnSeconds, static_cast<double>(now_ns() - began_ns) * 1e-9);
    if (worker_->ended() || options_.iterations > 0) return;
    if (spent_ < next_look_ && !worker_->run_ended()) return;
    take(worker_->snapshot());
    next_look_ = std::max(next_look_ * kNextLook, spent_);
  }

  /// Whether the loop should run beside its twin again.
  bool wants_twin() const { return !turns_before_.empty() && !worker_->ended() && !result_.settled; }
  void look_beside_twin() {
    take_turns(data_.turns.after, 0);
    result_.report = make_report(data_);
    result_.settled = result_.report.time.kind != Flatness::kInconclusive;
  }

  std::string printed() const { return worker_->printed(); }

  /// Ends the loop. Keeps a verdict that was found while the loop ran.
  LoopResult finish() {
    const bool found = looked_ && (result_.settled || !ends_);
    twin_.reset();
    const std::string record = worker_->finish();
    if (found) {
      take_blocks(parse(record));
    } else {
      take(record);
    }
    if (options_.verbose)
      fmt::print("\n  {}: {}\n{}    {}\n", loop_.name, loop_.what, worker_->printed(), outcome_text(result_));
    return std::move(result_);
  }

 private:
  double turns_seconds() const { return apps::turns_seconds(options_); }
  void take_turns(std::vector<observe::TurnPair>& pairs, double more_seconds) {
    observe::run_interleaved(*worker_, *twin_, turns_seconds(), pairs);
    const int64_t began_ns = now_ns();
    while (observe::turn_pairs_error(pairs) > kTwinErrorTooLarge && !worker_->ended() && !twin_->ended()) {
      const double left = more_seconds - static_cast<double>(now_ns() - began_ns) * 1e-9;
      if (left <= 0 || pairs.size() >= observe::TwinTurns::kMaxPairs) break;
      observe::run_interleaved(*worker_, *twin_, std::min(left, turns_seconds()), pairs);
    }
  }
  std::unique_ptr<observe::Worker> begin() const {
    return std::make_unique<observe::Worker>(
        [this](observe::Turns& turns) { return run_loop(loop_, options_, turns); });
  }
  observe::RunRecord parse(const std::string& record) const {
    return observe::parse_run_record(record, loop_.name);
  }
  /// The loop's notes and its epochs.
  void take_blocks(const observe::RunRecord& record) {
    result_.notes.clear();
    for (const observe::Block& block : record.parts.at(0).blocks) {
      if (const auto* note = std::get_if<observe::Paragraph>(&block)) result_.notes.push_back(note->text);
      if (const auto* epochs = std::get_if<observe::Plot>(&block)) result_.epochs_ns = epochs->series.at(0).y;
    }
  }

  /// A flat verdict is settled. If nothing is expected of the time, an inconclusive verdict is settled too. A
  /// change must be found twice, because a disturbance of the machine at a run's end looks like one.
  void take(const std::string& text) {
    const observe::RunRecord record = parse(text);
    take_blocks(record);
    data_ = *record.parts.at(0).run;
    data_.turns.before = turns_before_;
    result_.report = make_report(data_);
    looked_ = true;
    const Flatness found = result_.report.time.kind;
    const bool open = loop_.expected.leaves_time_open();
    result_.settled = options_.iterations > 0 || found == Flatness::kFlat ||
                      (open && found == Flatness::kInconclusive) ||
                      (ends_ && found != Flatness::kInconclusive && found == found_) ||
                      (ends_ && !open && worker_->ended());
    found_ = found;
  }

  const Loop& loop_;
  const CompareOptions& options_;
  const bool ends_;  // by itself
  std::unique_ptr<observe::Worker> worker_;
  double spent_ = 0;
  double next_look_;
  bool looked_ = false;
  std::optional<Flatness> found_;  // at the latest look
  observe::RunData data_;          // at the latest look
  std::unique_ptr<observe::Worker> twin_;
  std::vector<observe::TurnPair> turns_before_;
  LoopResult result_{.report = {}, .notes = {}, .epochs_ns = {}, .deviations = {}, .settled = false};
};

/// If a change was found only once, because the time was up before a second look, makes it inconclusive.
void withdraw(LoopResult& result) {
  observe::FlatnessVerdict& time = result.report.time;
  if (result.settled || time.kind == Flatness::kInconclusive) return;
  time.left_out.clear();  // the quoted reason already contains it
  doubt(time, fmt::format("{} when first judged ({}), but no time was left to judge again (--budget)",
                          flatness_name(time.kind), time.reason));
  result.report.evidence.set("time.growing", 0);
}

/// Compares each loop with its cured form.
void compare_forms(ScenarioResult& result) {
  const std::vector<Loop>& loops = result.scenario->loops;
  for (LoopResult& loop : result.loops) withdraw(loop);
  std::vector<RunReport> reports;  // the reports before the comparison
  for (const LoopResult& loop : result.loops) reports.push_back(loop.report);
  for (size_t i = 0; i < loops.size(); ++i) {
    const Loop& other = held_against(*result.scenario, loops[i]);
    // The other form's time for the work of one recorded iteration of this loop.
    RunReport same_work = reports[static_cast<size_t>(&other - loops.data())];
    const double work =
        static_cast<double>(loops[i].work_per_iteration) / static_cast<double>(other.work_per_iteration);
    same_work.duration_ns.mean *= work;
    same_work.duration_ns.p50 *= work;
    compare_with_cured(result.loops[i].report, same_work);
    result.loops[i].deviations = deviations_of(loops[i], result.loops[i]);
  }
}

using Clock = std::function<double()>;  // seconds
using Loops = std::vector<std::unique_ptr<Running>>;

/// On a terminal, one line that shows what is running; removed when the scenario is done.
class StatusLine {
 public:
  explicit StatusLine(const Scenario& scenario) : scenario_(scenario), shown_(is_terminal(stderr)) {}
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  ~StatusLine() {
    if (shown_) write_terminal_command(stderr, kClear);
  }
  void show(double seconds, std::string_view what) const {
    if (!shown_) return;
    write_terminal_command(stderr, kClear);
    const std::string text = fmt::format("{}: {:.0f} s, {}, {}", scenario_.name, seconds,
                                         isochron::count_text(scenario_.loops.size(), "loop"), what);
    fmt::print(stderr, "{}", row_of(stderr, text));
  }

 private:
  static constexpr std::string_view kClear = "\r\033[K";

  const Scenario& scenario_;
  bool shown_;
};

/// Runs all parts of a scenario's loops, alternating between loops.
void run_loops(const Loops& loops, const CompareOptions& options, const StatusLine& status,
               const Clock& spent, double until) {
  double usual = 0;  // usual time of the remaining parts
  for (const std::unique_ptr<Running>& loop : loops) usual += loop->usual_seconds();
  for (const std::unique_ptr<Running>& loop : loops) {
    if (spent() >= until) break;
    status.show(spent(), "warming up");
    loop->prepare(std::max(0.0, until - spent() - usual));
    usual -= loop->usual_seconds() - options.seconds;
  }
  for (bool any = true; any;) {
    any = false;
    status.show(spent(), "taking turns");
    for (const std::unique_ptr<Running>& loop : loops) {
      if (!loop->wants_turn(spent() < until)) continue;
      loop->turn();
      any = true;
    }
  }
  for (int look = 0; look < kLooksBeside; ++look) {
    for (const std::unique_ptr<Running>& loop : loops) {
      if (!loop->wants_twin() || spent() >= until) continue;
      status.show(spent(), "alternating with their twins");
      loop->look_beside_twin();
    }
  }
}

/// Creates the tables in a separate process.
std::vector<observe::Table> tables_of(const Scenario& scenario, double seconds) {
  std::vector<observe::Table> tables;
  if (scenario.tables.empty()) return tables;
  std::fflush(stdout);  // otherwise the new process would print it again
  observe::Worker worker([&](observe::Turns&) { return run_tables(scenario, seconds); });
  worker.run(1);
  const observe::RunRecord record = observe::parse_run_record(worker.finish(), scenario.name);
  for (const observe::Block& block : record.parts.at(0).blocks)
    tables.push_back(std::get<observe::Table>(block));
  return tables;
}

/// Runs a scenario. Beyond the time that each loop gets in any case, it may use the time until `until`.
ScenarioResult run_scenario(const Scenario& scenario, const CompareOptions& options, const Clock& spent,
                            double until) {
  const StatusLine status(scenario);
  if (options.verbose)
    fmt::print("\n{}: {}, taking turns\n", scenario.name,
               isochron::count_text(scenario.loops.size(), "loop"));
  const double table_seconds = table_seconds_of(options);
  until -= static_cast<double>(scenario.tables.size()) * table_seconds * kTableTimes;
  Loops loops;
  for (const Loop& loop : scenario.loops) loops.push_back(std::make_unique<Running>(loop, options));
  ScenarioResult result{&scenario, {}, {}};
  try {
    run_loops(loops, options, status, spent, until);
    for (const std::unique_ptr<Running>& loop : loops) result.loops.push_back(loop->finish());
  } catch (...) {
    for (const std::unique_ptr<Running>& loop : loops) fmt::print(stderr, "{}", loop->printed());
    throw;
  }
  status.show(spent(), "tables");
  result.tables = tables_of(scenario, table_seconds);
  compare_forms(result);
  return result;
}

}  // namespace

void run_steps(LoopContext& context, data::Dataset& batches,
               const std::function<void(const data::Element& batch)>& step, int64_t accumulate) {
  auto at = batches.begin();
  for (int64_t i = 1;; ++i) {
    {
      observe::IterationScope iteration(context.recorder, accumulate > 1 && i % accumulate == 0 ? 1 : 0);
      {
        observe::PhaseScope compute(context.recorder, observe::Phase::kCompute);
        step(*at);
      }
      observe::PhaseScope fetch(context.recorder, observe::Phase::kDataWait);
      ++at;
    }
    if (!context.next()) return;
  }
}

void fit_budget(std::span<const Scenario> scenarios, CompareOptions& options) {
  if (options.iterations > 0 || usual_seconds(scenarios, options) <= options.budget_seconds) return;
  constexpr int kTries = 8;  // several tries, because not all parts get shorter in proportion
  for (int i = 0; i < kTries && usual_seconds(scenarios, options) > options.budget_seconds; ++i)
    options.seconds *= options.budget_seconds / usual_seconds(scenarios, options);
  if (options.seconds >= kTurnSeconds) return;
  size_t loops = 0;
  for (const Scenario& scenario : scenarios) loops += scenario.loops.size();
  options.seconds = kTurnSeconds;
  fail(ErrorCode::kInvalidArgument, "--budget", "{} need at least {:.0f} s, got {:g}",
       isochron::count_text(loops, "loop"), std::ceil(usual_seconds(scenarios, options)),
       options.budget_seconds);
}

std::vector<ScenarioResult> run_scenarios(std::span<const Scenario> scenarios, const CompareOptions& options,
                                          const std::function<void(const ScenarioResult& result)>& done) {
  const int64_t began_ns = now_ns();
  const Clock spent = [began_ns] { return static_cast<double>(now_ns() - began_ns) * 1e-9; };
  size_t left = 0;  // loops
  for (const Scenario& scenario : scenarios) left += scenario.loops.size();
  std::vector<ScenarioResult> results;
  for (const Scenario& scenario : scenarios) {
    const double share = static_cast<double>(scenario.loops.size()) / static_cast<double>(left);
    const double began = spent();
    results.push_back(
        run_scenario(scenario, options, spent, began + (options.budget_seconds - began) * share));
    left -= scenario.loops.size();
    done(results.back());
  }
  return results;
}

}  // namespace isochron::apps
