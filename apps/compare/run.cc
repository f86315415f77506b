#include "isochron/apps/compare/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "isochron/apps/allocation_counter.h"
#include "isochron/apps/compare/budget.h"
#include "isochron/core/clock.h"
#include "isochron/core/error.h"

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

/// What a loop takes beside its recorded seconds, as a part of them: data, first plans, the reference kernel.
constexpr double kLeastTimes = 1.4;

constexpr int64_t kTimesAtLength = 10;

/// A loop that ends by itself is judged on what there is, however fast the machine was through with it.
observe::ReportOptions report_options(const Loop& loop) {
  observe::ReportOptions options;
  if (loop.max_iterations > 0) options.time.min_seconds = options.levels.min_seconds = 0;
  return options;
}

/// Counts iterations and epochs of one loop; decides when it has run long enough.
class Progress {
 public:
  Progress(const Loop& loop, const CompareOptions& options, observe::Recorder& recorder, double go_on_seconds)
      : loop_(loop),
        options_(options),
        recorder_(recorder),
        until_seconds_(options.seconds),
        go_on_seconds_(go_on_seconds),
        epoch_began_ns_(now_ns()) {}

  bool next() {
    ++iterations_;
    if (iterations_ % loop_.iterations_per_epoch == 0) end_epoch();
    if (more()) return true;
    recorder_.sample();  // while what the loop holds is there; a short run has no other since its beginning
    return false;
  }

 private:
  bool more() {
    if (loop_.max_iterations > 0 && iterations_ >= loop_.max_iterations) return false;
    if (options_.iterations > 0) return iterations_ < options_.iterations;
    const int64_t least = loop_.min_iterations * (options_.at_length ? kTimesAtLength : 1);
    if (epochs_ < options_.epochs || iterations_ < least) return true;
    if (iterations_ >= kIterationLimit) return false;
    const double seconds = static_cast<double>(recorder_.totals().elapsed_ns) * 1e-9;
    return seconds < until_seconds_ || go_on(seconds);
  }

  /// On a machine with other work the verdict may need more windows: a loop goes on while it is inconclusive.
  bool go_on(double seconds) {
    if (loop_.expected.time.empty()) return false;
    if (loop_.max_iterations > 0) return true;
    if (make_report(recorder_, loop_.name, report_options(loop_)).time.kind != Flatness::kInconclusive)
      return false;
    const int64_t now = now_ns();
    if (go_on_until_ns_ == 0) go_on_until_ns_ = now + static_cast<int64_t>(go_on_seconds_ * 1e9);
    until_seconds_ = seconds + options_.seconds;
    return now < go_on_until_ns_;
  }

  void end_epoch() {
    const int64_t now = now_ns();
    ++epochs_;
    if (epochs_ <= options_.epochs && !options_.quiet) {
      fmt::print("    Epoch {}, Time: {:.4f} seconds\n", epochs_,
                 static_cast<double>(now - epoch_began_ns_) * 1e-9);
    }
    // What the first epoch does once (plans, first growth of a pool) is warm-up, not the loop.
    const bool last = options_.iterations > 0 && iterations_ >= options_.iterations;
    if (epochs_ == 1 && loop_.max_iterations == 0 && !last) recorder_.seal();
    epoch_began_ns_ = now_ns();
  }

  const Loop& loop_;
  const CompareOptions& options_;
  observe::Recorder& recorder_;
  int64_t iterations_ = 0;
  int epochs_ = 0;
  double until_seconds_;
  double go_on_seconds_;
  int64_t go_on_until_ns_ = 0;  // 0: not looked at yet
  int64_t epoch_began_ns_;
};

std::string outcome_text(const LoopResult& result) {
  const observe::FlatnessVerdict& time = result.report.time;
  std::string text = fmt::format("{} an iteration, {}", observe::duration_text(result.report.duration_ns.p50),
                                 flatness_name(time.kind));
  if (!time.largest.name.empty()) text += fmt::format(" {:+.1f} %", 100 * time.largest.change);
  return text + (result.settled ? "" : ", not settled yet");
}

/// What was found flat is settled. A change must be found in two runs in a row: what happens to the machine
/// in one of them is all over that run's windows, and looking at these again would find it again.
bool is_settled(const Loop& loop, Flatness found, std::optional<Flatness> before) {
  return loop.expected.time.empty() || found == Flatness::kFlat ||
         (found != Flatness::kInconclusive && found == before);
}

/// `go_on_seconds`: for how long it may go on beyond its least time to be settled. `before`: what an earlier
/// run of it has found.
LoopResult run_loop(const Loop& loop, const CompareOptions& options, double go_on_seconds,
                    std::optional<Flatness> before = {}) {
  fmt::print("\n  {}: {}\n", loop.name, loop.what);
  observe::Recorder recorder({.sample_interval_ns = kSampleIntervalNs,
                              .timing_share = kTimingShare,
                              .reference_share = kWatchingShare,
                              .sampling_share = kWatchingShare,
                              .heap_allocations = allocations_counted() ? heap_allocations : nullptr,
                              .library_allocations = allocations_counted() ? library_allocations : nullptr,
                              .gauges = loop.gauges});
  Progress progress(loop, options, recorder, go_on_seconds);
  LoopContext context{recorder, options, [&progress] { return progress.next(); }};
  loop.run(context);
  LoopResult result;
  result.report = make_report(recorder, loop.name, report_options(loop));
  result.settled = options.iterations > 0 || is_settled(loop, result.report.time.kind, before);
  if (loop.notes) result.notes = loop.notes();
  fmt::print("    {}\n", outcome_text(result));
  std::fflush(stdout);
  return result;
}

/// Whether a change was found that no second run has confirmed.
bool is_change(const LoopResult& result) {
  return !result.settled && result.report.time.kind != Flatness::kInconclusive;
}

/// The second run of a loop that was found to change: what follows the first counts.
void look_for_change_again(const Loop& loop, const CompareOptions& options, LoopResult& result) {
  fmt::print("\n  Once more, as a change must be found twice in a row:");
  CompareOptions again = options;
  again.quiet = true;
  result = run_loop(loop, again, 0, result.report.time.kind);
}

/// Runs what isn't settled again and again for the time that is left. What was found last counts.
void run_again(std::vector<ChapterResult>& results, const CompareOptions& options, const Budget& budget) {
  std::vector<std::pair<const Loop*, LoopResult*>> open;
  for (ChapterResult& result : results) {
    for (size_t i = 0; i < result.loops.size(); ++i)
      open.emplace_back(&result.chapter->loops[i], &result.loops[i]);
  }
  const double least = kLeastTimes * options.seconds;
  CompareOptions again = options;
  again.quiet = true;
  for (;;) {
    std::erase_if(open, [](const auto& entry) { return entry.second->settled; });
    auto to_come = static_cast<int64_t>(open.size());
    for (const auto& [loop, result] : open) {
      const double share = std::max(budget.to_run_again(to_come--), std::min(budget.to_run_again(1), least));
      if (share == 0) return;
      const Flatness found = result->report.time.kind;
      fmt::print(
          "\n  Once more, {}, for at most {:.0f} s:",
          found == Flatness::kInconclusive ? "to be settled" : "as a change must be found twice in a row",
          share);
      *result = run_loop(*loop, again, share - least, found);
    }
    if (open.empty()) return;
  }
}

/// A change that no second run has confirmed is none to speak of.
void withdraw(LoopResult& result) {
  observe::FlatnessVerdict& time = result.report.time;
  if (!is_change(result)) return;
  time.reason = fmt::format("{} in one run ({}), which no second run has confirmed", flatness_name(time.kind),
                            time.reason);
  time.kind = Flatness::kInconclusive;
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
  int64_t loops = 0;
  for (const Chapter& chapter : chapters) loops += static_cast<int64_t>(chapter.loops.size());
  Budget budget(options.budget_seconds, loops, kLeastTimes * options.seconds);
  if (options.iterations == 0) {
    fmt::print(
        "{} loops share {:g} s: {:g} s of iterations each; what is left goes to those that need more.\n",
        loops, options.budget_seconds, options.seconds);
  }
  std::vector<ChapterResult> results;
  for (const Chapter& chapter : chapters) {
    fmt::print("\n== {} ==  \"{}\"\n", chapter.name, chapter.complaint);
    ChapterResult result{&chapter, {}, {}};
    for (const Loop& loop : chapter.loops) {
      budget.begin_loop();
      result.loops.push_back(run_loop(loop, options, budget.to_go_on()));
      if (is_change(result.loops.back())) look_for_change_again(loop, options, result.loops.back());
    }
    const double table_seconds = options.iterations > 0 ? 0.1 : options.seconds / 4;
    for (const auto& make_table : chapter.tables) result.tables.push_back(make_table(table_seconds));
    results.push_back(std::move(result));
  }
  run_again(results, options, budget);
  for (ChapterResult& result : results) compare_forms(result);
  if (options.iterations == 0) {
    fmt::print("\n{:.0f} s of {:g} were spent.\n", budget.spent(), budget.seconds());
  }
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
