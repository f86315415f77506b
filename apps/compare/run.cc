#include "isochron/apps/compare/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <variant>

#include "isochron/apps/allocation_counter.h"
#include "isochron/core/clock.h"
#include "isochron/core/error.h"
#include "isochron/observe/alternate.h"
#include "isochron/observe/run_record.h"
#include "isochron/observe/worker.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::RunReport;

/// Iterations that the recorder may see before a run without end in sight is stopped.
constexpr int64_t kIterationLimit = 50'000'000;

/// Short enough that a loop of a tenth of a second has the samples that a verdict on its memory and disk
/// needs.
constexpr int64_t kSampleIntervalNs = 1'000'000;

/// More than a recorder takes by itself: the loops are short, and every iteration that spikes is looked for.
constexpr double kTimingShare = 0.05, kWatchingShare = 0.01;

/// Short against the run, so that each part of it meets all moods of the machine; long against the
/// milliseconds that threads which stood still take to spread over the cores again.
constexpr double kTurnSeconds = 0.2;

/// What making a table takes, at most, of the time it is given.
constexpr double kTableTimes = 1.5;

/// The next look at a loop that isn't settled comes when it has run so many times as long.
constexpr double kNextLook = 1.5;

/// So often a loop is beside its twin after its run, and looked at.
constexpr int kLooksBeside = 3;

constexpr int64_t kTimesAtLength = 10;

int64_t least_iterations(const Loop& loop, const CompareOptions& options) {
  return loop.min_iterations * (options.at_length ? kTimesAtLength : 1);
}

/// Whether its time is held against that of another process that stands still while it runs. One that is
/// bound to grow needs none.
bool has_twin(const Loop& loop, const CompareOptions& options) {
  if (options.iterations > 0 || loop.expected.leaves_time_open()) return false;
  return loop.max_iterations == 0 || loop.expected.allows(Flatness::kFlat);
}

/// A loop that ends by itself is judged on what there is, however fast the machine was through with it.
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
    recorder_.sample();  // while what the loop holds is there; a short run has no other since its beginning
    return false;
  }

  /// What was recorded, and what the loop says of it.
  std::string record() const {
    observe::RunRecord record{.title = loop_.name, .parts = {}};
    record.parts.push_back({.run = run_data(recorder_, loop_.name, report_options(loop_))});
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
    } else if (!turns_.over(observe::running_ns())) {
      return true;
    }
    const bool ended = ended_ || !turns_.wait([this] { return record(); });
    ended_ = ended;
    // The least is run in any case.
    return !ended || epochs_ < options_.epochs || iterations_ < least_iterations(loop_, options_);
  }

  /// What was timed since it was last done: an iteration, or an epoch of a loop that tells of its iterations
  /// then.
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
    if (epochs_ <= options_.epochs && !options_.quiet) {
      fmt::print("    Epoch {}, Time: {:.4f} seconds\n", epochs_,
                 static_cast<double>(now - epoch_began_ns_) * 1e-9);
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
  bool in_run_;  // not beside the twin before it
  int64_t iterations_ = 0, run_iterations_ = 0;
  int epochs_ = 0;
  bool ended_ = false;
  bool warm_ = false;
  int64_t added_iterations_ = 0, added_ns_ = 0;  // what turns have, of the recorder's totals
  int64_t epoch_began_ns_;
};

std::string run_loop(const Loop& loop, const CompareOptions& options, observe::Turns& turns) {
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

std::string run_tables(const Chapter& chapter, double seconds) {
  observe::RunRecord record{.title = chapter.name, .parts = {}};
  std::vector<observe::Block>& blocks = record.parts.emplace_back().blocks;
  for (const auto& make_table : chapter.tables) blocks.emplace_back(make_table(seconds));
  return to_json(record);
}

std::string outcome_text(const LoopResult& result) {
  const observe::FlatnessVerdict& time = result.report.time;
  std::string text = fmt::format("{} an iteration, {}", observe::duration_text(result.report.duration_ns.p50),
                                 flatness_name(time.kind));
  if (!time.largest.name.empty()) text += fmt::format(" {:+.1f} %", 100 * time.largest.change);
  return text + (result.settled ? "" : ", not settled");
}

/// A loop on its way through its turns.
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

  /// Has warmed up, and its twin, and was beside it for the first time; the run begins.
  void prepare() {
    if (!twin_) return;
    for (observe::Worker* worker : {worker_.get(), twin_.get()}) {
      while (!worker->ended() && worker->run(kTurnSeconds / 4).iterations == 0) continue;
      // What counts as settling in a run's verdict.
      if (!worker->ended()) worker->run(observe::FlatnessOptions{}.max_warmup * options_.seconds);
    }
    if (!worker_->ended() && !twin_->ended()) take_turns(turns_before_);
  }

  /// `more_time`: beyond what every loop has, for a loop that ends by itself.
  bool wants_turn(bool more_time) const {
    if (worker_->run_ended()) return false;
    if (options_.iterations > 0 || spent_ < options_.seconds) return true;
    if (loop_.max_iterations == 0) return result_.report.iterations < least_iterations(loop_, options_);
    return more_time && !result_.settled;
  }
  void turn() {
    const int64_t began_ns = now_ns();
    worker_->run(kTurnSeconds, spent_ == 0 && twin_);
    // The first one makes data and plans too.
    spent_ += std::min(2 * kTurnSeconds, static_cast<double>(now_ns() - began_ns) * 1e-9);
    if (worker_->ended() || options_.iterations > 0) return;
    if (spent_ < next_look_ && !worker_->run_ended()) return;
    take(worker_->snapshot());
    next_look_ = std::max(next_look_ * kNextLook, spent_);
  }

  /// Whether it is to be beside its twin again.
  bool wants_twin() const { return !turns_before_.empty() && !worker_->ended() && !result_.settled; }
  void look_beside_twin() {
    take_turns(data_.turns.after);
    result_.report = make_report(data_);
    result_.settled = result_.report.time.kind != Flatness::kInconclusive;
  }

  /// Ends it. What was found while it went on stays as it was found.
  LoopResult finish() {
    const bool found = looked_ && (result_.settled || !ends_);
    twin_.reset();
    const std::string record = worker_->finish();
    if (found) {
      result_.notes = notes_of(parse(record));
    } else {
      take(record);
    }
    fmt::print("\n  {}: {}\n{}    {}\n", loop_.name, loop_.what, worker_->printed(), outcome_text(result_));
    return std::move(result_);
  }

 private:
  void take_turns(std::vector<observe::TurnPair>& pairs) {
    observe::alternate(*worker_, *twin_, std::min(observe::kBesideTwinSeconds, options_.seconds), pairs);
  }
  std::unique_ptr<observe::Worker> begin() const {
    return std::make_unique<observe::Worker>(
        [this](observe::Turns& turns) { return run_loop(loop_, options_, turns); });
  }
  observe::RunRecord parse(const std::string& record) const {
    return observe::parse_run_record(record, loop_.name);
  }
  static std::vector<std::string> notes_of(const observe::RunRecord& record) {
    std::vector<std::string> notes;
    for (const observe::Block& block : record.parts.at(0).blocks)
      notes.push_back(std::get<observe::Paragraph>(block).text);
    return notes;
  }

  /// What was found flat is settled. Where nothing is expected of time, so is what isn't decided;
  /// a change must be found twice there, for what happens to the machine at a run's end looks like one.
  void take(const std::string& text) {
    const observe::RunRecord record = parse(text);
    result_.notes = notes_of(record);
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
  LoopResult result_{.report = {}, .notes = {}, .deviations = {}, .settled = false};
};

/// A change that no second look has confirmed is none to speak of.
void withdraw(LoopResult& result) {
  observe::FlatnessVerdict& time = result.report.time;
  if (result.settled || time.kind == Flatness::kInconclusive) return;
  time.reason = fmt::format("{} at one look ({}), which no second one has confirmed",
                            flatness_name(time.kind), time.reason);
  time.kind = Flatness::kInconclusive;
  time.iterations_to_decide = std::numeric_limits<double>::infinity();  // another look would
  result.report.evidence.set("time.growing", 0);
}

/// The index of the loop that `loop` is compared with.
size_t held_against(const Chapter& chapter, const Loop& loop) {
  const auto found = std::find_if(chapter.loops.begin(), chapter.loops.end(), [&](const Loop& other) {
    return loop.against.empty() ? other.cured : other.name == loop.against;
  });
  require(found != chapter.loops.end(), ErrorCode::kInvalidArgument, chapter.name,
          "'{}' has no loop to be held against", loop.name);
  return static_cast<size_t>(found - chapter.loops.begin());
}

/// Holds each loop against its cured form.
void compare_forms(ChapterResult& result) {
  const std::vector<Loop>& loops = result.chapter->loops;
  for (LoopResult& loop : result.loops) withdraw(loop);
  std::vector<RunReport> reports;  // as they are before any is held against another
  for (const LoopResult& loop : result.loops) reports.push_back(loop.report);
  for (size_t i = 0; i < loops.size(); ++i) {
    const size_t other = held_against(*result.chapter, loops[i]);
    // The other form's time for what one recorded iteration of this loop does.
    RunReport same_work = reports[other];
    same_work.duration_ns.p50 *= static_cast<double>(loops[i].work_per_iteration) /
                                 static_cast<double>(loops[other].work_per_iteration);
    compare_with_cured(result.loops[i].report, same_work);
    result.loops[i].deviations = deviations_of(loops[i], result.loops[i]);
  }
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

std::vector<ChapterResult> run_chapters(std::span<const Chapter> chapters, const CompareOptions& options) {
  const int64_t began_ns = now_ns();
  const auto spent = [began_ns] { return static_cast<double>(now_ns() - began_ns) * 1e-9; };
  std::vector<std::vector<std::unique_ptr<Running>>> running;
  size_t loops = 0, tables = 0;
  for (const Chapter& chapter : chapters) {
    auto& own = running.emplace_back();
    for (const Loop& loop : chapter.loops) own.push_back(std::make_unique<Running>(loop, options));
    loops += chapter.loops.size();
    tables += chapter.tables.size();
  }
  const double table_seconds = options.iterations > 0 ? 0.1 : options.seconds / 5;
  if (options.iterations == 0) {
    fmt::print(
        "{} loops run in turns, each in a process of its own: {:g} s each, and time beside a twin that "
        "stands still meanwhile, {:g} s in all.\n",
        loops, options.seconds, options.budget_seconds);
    std::fflush(stdout);
  }
  const double until = options.budget_seconds - static_cast<double>(tables) * table_seconds * kTableTimes;
  for (const auto& own : running) {
    for (const std::unique_ptr<Running>& loop : own) {
      if (spent() < until) loop->prepare();
    }
  }
  for (bool any = true; any;) {
    any = false;
    for (const auto& own : running) {
      for (const std::unique_ptr<Running>& loop : own) {
        if (!loop->wants_turn(spent() < until)) continue;
        loop->turn();
        any = true;
      }
    }
  }
  for (int look = 0; look < kLooksBeside; ++look) {
    for (const auto& own : running) {
      for (const std::unique_ptr<Running>& loop : own) {
        if (loop->wants_twin() && spent() < until) loop->look_beside_twin();
      }
    }
  }
  std::vector<ChapterResult> results;
  for (size_t c = 0; c < chapters.size(); ++c) {
    const Chapter& chapter = chapters[c];
    fmt::print("\n== {} ==  \"{}\"\n", chapter.name, chapter.complaint);
    ChapterResult result{&chapter, {}, {}};
    for (const std::unique_ptr<Running>& loop : running[c]) result.loops.push_back(loop->finish());
    std::fflush(stdout);
    if (!chapter.tables.empty()) {
      observe::Worker worker([&](observe::Turns&) { return run_tables(chapter, table_seconds); });
      worker.run(1);
      const observe::RunRecord record = observe::parse_run_record(worker.finish(), chapter.name);
      for (const observe::Block& block : record.parts.at(0).blocks)
        result.tables.push_back(std::get<observe::Table>(block));
    }
    compare_forms(result);
    results.push_back(std::move(result));
  }
  if (options.iterations == 0)
    fmt::print("\n{:.0f} s of {:g} were spent.\n", spent(), options.budget_seconds);
  return results;
}

std::string chapter_text(const ChapterResult& result) {
  std::vector<RunReport> reports;
  for (const LoopResult& loop : result.loops) reports.push_back(loop.report);
  std::string text = fmt::format("\n== {} ==\n\n{}", result.chapter->name, observe::summary_text(reports));
  for (const LoopResult& loop : result.loops) {
    for (const std::string& note : loop.notes) text += fmt::format("  {}: {}\n", loop.report.name, note);
  }
  for (const observe::Table& table : result.tables) text += fmt::format("\n{}", observe::table_text(table));
  text += fmt::format("\n{}\n", result.chapter->summary);
  for (const LoopResult& loop : result.loops) {
    for (const Deviation& deviation : loop.deviations)
      text += fmt::format("  not as expected: {}: {}\n", loop.report.name, deviation.text);
  }
  return text;
}

}  // namespace isochron::apps
