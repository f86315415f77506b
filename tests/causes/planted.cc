#include "causes/planted.h"

#include <algorithm>
#include <optional>

namespace isochron::causes {
namespace {

using observe::Flatness;

constexpr double kMaxTimes = 4;

void append(std::vector<Planted>& all, std::vector<Planted> more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Planted> all_planted() {
  std::vector<Planted> all = healthy_loops();
  append(all, planted_graph());
  append(all, planted_history());
  append(all, planted_memory());
  append(all, planted_input());
  append(all, planted_numbers());
  append(all, planted_machine());
  append(all, planted_files());
  append(all, planted_ranks());
  return all;
}

observe::RecorderOptions recorder_options() {
  return {.sample_interval_ns = 1'000'000, .sampling_share = 0.02};  // the runs are short
}

observe::ReportOptions report_options() {
  observe::ReportOptions options;
  options.time.min_seconds = options.levels.min_seconds = 0;
  return options;
}

observe::RunReport run_loop(const std::function<void(observe::Recorder& recorder, int64_t i)>& step,
                            const Extent& extent, observe::RecorderOptions options) {
  observe::Recorder recorder(std::move(options));
  int64_t i = 0;
  const auto iterate = [&] {
    observe::IterationScope iteration(recorder);
    step(recorder, i++);
  };
  while (i < extent.warmup) iterate();
  if (i > 0)
    static_cast<void>(
        make_report(recorder, "warm-up", report_options()));  // what a report takes from the heap
  recorder.seal();
  std::optional<Flatness> before;
  for (double seconds = extent.seconds;; seconds += extent.seconds) {
    const auto short_of_it = [&] {
      const observe::RunTotals& totals = recorder.totals();
      return totals.iterations < extent.least || static_cast<double>(totals.elapsed_ns) * 1e-9 < seconds;
    };
    while (i < extent.most && short_of_it()) iterate();
    recorder.sample();
    observe::RunReport report = make_report(recorder, "planted", report_options());
    const Flatness found = report.time.kind;
    const bool settled = found == Flatness::kFlat || (found == before && found != Flatness::kInconclusive);
    if (settled || i >= extent.most || seconds >= kMaxTimes * extent.seconds) return report;
    before = found;
  }
}

std::vector<std::string> named(const observe::RunReport& report, std::string_view planted) {
  std::vector<std::string> names;
  for (const observe::Cause& cause : report.causes) {
    if (!observe::of_machine(cause.name) || observe::of_machine(planted)) names.push_back(cause.name);
  }
  return names;
}

}  // namespace isochron::causes
