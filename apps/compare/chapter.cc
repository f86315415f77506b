#include "isochron/apps/compare/chapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "isochron/apps/allocation_counter.h"
#include "isochron/core/clock.h"
#include "isochron/core/error.h"
#include "isochron/core/event.h"
#include "isochron/core/threads.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::RunReport;

/// Iterations that the recorder may see before a run without end in sight is stopped.
constexpr int64_t kIterationLimit = 50'000'000;

/// Short enough that a loop of a tenth of a second has the samples that a verdict on its memory and disk
/// needs.
constexpr int64_t kSampleIntervalNs = 1'000'000;

/// A loop whose verdict isn't settled runs at most so many times as long as asked.
constexpr double kMostTimes = 20;

/// A loop that ends by itself is judged on what there is, however fast the machine was through with it.
observe::ReportOptions report_options(const Loop& loop) {
  observe::ReportOptions options;
  if (loop.max_iterations > 0) options.time.min_seconds = options.levels.min_seconds = 0;
  return options;
}

/// Counts iterations and epochs of one loop; decides when it has run long enough.
class Progress {
 public:
  Progress(const Loop& loop, const CompareOptions& options, observe::Recorder& recorder)
      : loop_(loop),
        options_(options),
        recorder_(recorder),
        until_seconds_(options.seconds),
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
    if (epochs_ < options_.epochs || iterations_ < loop_.min_iterations) return true;
    if (iterations_ >= kIterationLimit) return false;
    const double seconds = static_cast<double>(recorder_.totals().total_ns) * 1e-9;
    return seconds < until_seconds_ || run_on(seconds);
  }

  /// On a machine with other work the verdict may need more windows: a loop runs on until it is found flat,
  /// or twice in a row to have changed alike.
  bool run_on(double seconds) {
    if (seconds >= kMostTimes * options_.seconds || loop_.expected.time.empty()) return false;
    const Flatness found = make_report(recorder_, loop_.name, report_options(loop_)).time.kind;
    const bool confirmed = found_ == found && found != Flatness::kInconclusive;
    if (found == Flatness::kFlat || confirmed) return false;
    if (!found_ && !options_.quiet) {
      fmt::print("    not settled after {:.1f} s of iterations; running on for at most {:.0f} s\n", seconds,
                 kMostTimes * options_.seconds);
      std::fflush(stdout);
    }
    found_ = found;
    until_seconds_ = seconds + options_.seconds;
    return true;
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
  int64_t epoch_began_ns_;
  std::optional<Flatness> found_;  // at the latest look
};

bool names_cause(const RunReport& report, const std::string& cause) {
  return std::any_of(report.causes.begin(), report.causes.end(),
                     [&cause](const observe::Cause& c) { return c.name == cause; });
}

std::string cause_list(const RunReport& report) {
  std::string text;
  for (const observe::Cause& cause : report.causes) text += (text.empty() ? "" : ", ") + cause.name;
  return text.empty() ? "none" : text;
}

std::vector<std::string> deviations(const Loop& loop, const LoopResult& result) {
  const RunReport& report = result.report;
  std::vector<std::string> found;
  const Expectation& expected = loop.expected;
  const bool time_as_expected = expected.time.empty() || std::find(expected.time.begin(), expected.time.end(),
                                                                   report.time.kind) != expected.time.end();
  if (!time_as_expected) {
    found.push_back(fmt::format("time was found {}, expected {}", flatness_name(report.time.kind),
                                flatness_name(expected.time.front())));
  }
  const bool slow = report.times_slower.value_or(1) >= observe::kSlowFactor;
  if (expected.slow && !slow) found.push_back("was expected to be slow against the cured form");
  for (const observe::SeriesReport& series : report.series) {
    const bool grows = series.verdict && series.verdict->kind == Flatness::kGrowing;
    if (series.name == expected.grows && !grows) {
      found.push_back(fmt::format("{} was found {}, expected growing", series.name,
                                  series.verdict ? flatness_name(series.verdict->kind) : "not judged"));
    }
    const bool level = series.name == "rss_bytes" || series.name == "disk_bytes";
    if (loop.cured && level && grows) found.push_back(fmt::format("{} was found growing", series.name));
  }
  if (!expected.cause.empty() && !names_cause(report, expected.cause)) {
    found.push_back(fmt::format("cause named: {}; expected '{}'", cause_list(report), expected.cause));
  }
  const size_t of_machine = report.time.machine_slowed ? 1 : 0;  // no fault of the loop's
  if (expected.cause.empty() && loop.cured && report.causes.size() > of_machine) {
    found.push_back(fmt::format("cause named: {}; expected none", cause_list(report)));
  }
  const std::string owner = report.spikes.owner_name();
  if (expected.spike_period &&
      (!report.spikes.period || report.spikes.period->length != *expected.spike_period ||
       owner != expected.spike_label)) {
    found.push_back(fmt::format("spikes owned by '{}' with period {}; expected '{}' with period {}", owner,
                                report.spikes.period ? std::to_string(report.spikes.period->length) : "none",
                                expected.spike_label, *expected.spike_period));
  }
  const auto says_fragmentation = [](const std::string& note) {
    return note.find("fragmentation") != std::string::npos;
  };
  if (expected.reports_fragmentation &&
      std::none_of(result.notes.begin(), result.notes.end(), says_fragmentation)) {
    found.push_back("no note says how fragmented the memory was");
  }
  if (expected.no_allocations && report.heap_allocations_per_step.value_or(0) > 0) {
    found.push_back(
        fmt::format("{:g} heap allocations a step, expected none", *report.heap_allocations_per_step));
  }
  return found;
}

LoopResult run_loop(const Loop& loop, const CompareOptions& options) {
  fmt::print("\n  {}: {}\n", loop.name, loop.what);
  observe::Recorder recorder({.sample_interval_ns = kSampleIntervalNs,
                              .heap_allocations = allocations_counted() ? heap_allocations : nullptr,
                              .library_allocations = allocations_counted() ? library_allocations : nullptr,
                              .gauges = loop.gauges});
  Progress progress(loop, options, recorder);
  LoopContext context{recorder, options, [&progress] { return progress.next(); }};
  loop.run(context);
  LoopResult result;
  result.report = make_report(recorder, loop.name, report_options(loop));
  if (loop.notes) result.notes = loop.notes();
  return result;
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

std::vector<LoopResult> run_chapter(const Chapter& chapter, const CompareOptions& options) {
  fmt::print("\n== {} ==  \"{}\"\n", chapter.name, chapter.complaint);
  std::vector<LoopResult> results;
  for (const Loop& loop : chapter.loops) results.push_back(run_loop(loop, options));
  // As they are before any is held against another.
  std::vector<RunReport> reports;
  for (const LoopResult& result : results) reports.push_back(result.report);
  for (size_t i = 0; i < results.size(); ++i) {
    const size_t other = held_against(chapter, chapter.loops[i]);
    // The other form's time for what one recorded iteration of this loop does.
    RunReport same_work = reports[other];
    same_work.duration_ns.p50 *= static_cast<double>(chapter.loops[i].work_per_iteration) /
                                 static_cast<double>(chapter.loops[other].work_per_iteration);
    compare_with_cured(results[i].report, same_work);
    results[i].deviations = deviations(chapter.loops[i], results[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) reports[i] = results[i].report;
  fmt::print("\n{}", table_text(reports));
  for (const LoopResult& result : results) {
    for (const std::string& note : result.notes) fmt::print("  {}: {}\n", result.report.name, note);
  }
  fmt::print("\n{}\n", chapter.summary);
  for (const LoopResult& result : results) {
    for (const std::string& line : result.deviations)
      fmt::print("  not as expected: {}: {}\n", result.report.name, line);
  }
  std::fflush(stdout);
  return results;
}

}  // namespace isochron::apps
