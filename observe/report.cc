#include "isochron/observe/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "isochron/core/error.h"

namespace isochron::observe {
namespace {

std::string joined(std::string_view head, std::string_view tail) { return fmt::format("{}.{}", head, tail); }

/// The class that took most of the time.
int main_class(const Recorder& recorder) {
  const std::vector<int> classes = recorder.classes();
  return *std::max_element(classes.begin(), classes.end(), [&](int a, int b) {
    return recorder.windows(a).total_ns() < recorder.windows(b).total_ns();
  });
}

FlatnessVerdict judge_time(const Recorder& recorder, const FlatnessOptions& options) {
  struct Columns {
    std::vector<double> medians, means, reference, reference_means, waited;
  };
  const std::vector<int> classes = recorder.classes();
  std::vector<Columns> columns;
  for (int c : classes) {
    const WindowSeries& windows = recorder.windows(c);
    columns.push_back({windows.medians(), windows.means(), windows.reference_typical(),
                       windows.reference_means(), windows.waited()});
  }
  std::vector<ClassInput> inputs;
  for (size_t i = 0; i < classes.size(); ++i) {
    const WindowSeries& windows = recorder.windows(classes[i]);
    const double share = static_cast<double>(windows.total_ns()) /
                         static_cast<double>(std::max<int64_t>(1, recorder.totals().total_ns));
    inputs.push_back({{.medians = columns[i].medians,
                       .means = columns[i].means,
                       .reference = columns[i].reference,
                       .reference_means = columns[i].reference_means,
                       .waited = columns[i].waited,
                       .iterations_per_window = static_cast<double>(windows.length()),
                       .seconds = static_cast<double>(recorder.totals().elapsed_ns) * 1e-9},
                      share});
  }
  return judge_classes(inputs, options);
}

std::vector<SeriesReport> judge_series(const Recorder& recorder, const FlatnessOptions& options) {
  const std::vector<Sample>& samples = recorder.samples();
  const int64_t covered = samples.empty() ? 0 : samples.back().iteration - samples.front().iteration;
  const double iterations = static_cast<double>(std::max<int64_t>(1, covered));
  std::vector<SeriesReport> result;
  for (NamedSeries& series : recorder.series()) {
    SeriesReport report{std::move(series.name), series.cumulative, 0, 0, 0, std::nullopt, {}};
    if (!series.values.empty()) {
      report.first = series.values.front();
      report.last = series.values.back();
      report.per_iteration = (report.last - report.first) / iterations;
    }
    if (!series.cumulative) {
      for (double& value : series.values) value = std::max(value, 0.0);  // a gauge may say -1 for unknown
      report.verdict =
          judge_flatness({.medians = series.values,
                          .iterations_per_window = iterations / static_cast<double>(series.values.size()),
                          .seconds = static_cast<double>(recorder.totals().elapsed_ns) * 1e-9},
                         options);
    }
    report.values = std::move(series.values);
    result.push_back(std::move(report));
  }
  return result;
}

SpikeReport summarise_spikes(const Recorder& recorder) {
  SpikeReport report;
  report.count = recorder.totals().spikes;
  report.time_share = static_cast<double>(recorder.totals().spike_excess_ns) /
                      static_cast<double>(std::max<int64_t>(1, recorder.totals().total_ns));
  report.largest = recorder.largest_spikes();
  struct Group {
    double excess_ns = 0;
    std::vector<int64_t> iterations;
  };
  std::map<std::pair<Phase, std::string>, Group> groups;
  for (const Spike& spike : recorder.recent_spikes()) {
    Group& group = groups[{spike.owner, spike.label == nullptr ? "" : spike.label}];
    group.excess_ns += static_cast<double>(spike.duration_ns - spike.usual_ns);
    group.iterations.push_back(spike.iteration);
  }
  const auto costliest = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.excess_ns < b.second.excess_ns;
  });
  if (costliest == groups.end()) return report;
  report.owner = costliest->first.first;
  report.label = costliest->first.second;
  report.period = find_period(costliest->second.iterations);
  return report;
}

/// Mean ns per iteration of every phase over some windows.
std::array<double, kPhaseCount> phase_means(std::span<const Window> windows) {
  PhaseTimes sums{};
  int64_t iterations = 0;
  for (const Window& window : windows) {
    iterations += window.iterations;
    for (size_t p = 0; p < kPhaseCount; ++p) sums[p] += window.phase_ns[p];
  }
  std::array<double, kPhaseCount> means{};
  for (size_t p = 0; p < kPhaseCount; ++p) {
    means[p] = static_cast<double>(sums[p]) / static_cast<double>(std::max<int64_t>(1, iterations));
  }
  return means;
}

void add_phase_growth(Evidence& evidence, std::span<const Window> windows) {
  const size_t tenth = std::max<size_t>(1, windows.size() / 10);
  if (windows.size() < 2 * tenth) return;
  const auto first = phase_means(windows.first(tenth));
  const auto last = phase_means(windows.last(tenth));
  double growth = 0;
  for (size_t p = 0; p < kPhaseCount; ++p) growth += last[p] - first[p];
  if (growth <= 0) return;
  for (size_t p = 0; p < kPhaseCount; ++p) {
    evidence.set(fmt::format("phase.{}.growth_share", phase_name(static_cast<Phase>(p))),
                 (last[p] - first[p]) / growth);
  }
}

/// The power of a growing level that time has followed from the first tenth to the last: 1 where one is
/// proportional to the other.
double exponent(const FlatnessVerdict& time, const FlatnessVerdict& level) {
  const double of_level = std::log(std::max(1.0, level.last_tenth) / std::max(1.0, level.first_tenth));
  const double of_time = std::log(time.last_tenth / std::max(1.0, time.first_tenth));
  return of_level > 0 ? of_time / of_level : 0;
}

void add_evidence(RunReport& report, const Recorder& recorder) {
  Evidence& evidence = report.evidence;
  const bool growing = report.time.kind == Flatness::kGrowing;
  evidence.set("time.growing", growing);
  evidence.set("time.machine_slowed", report.time.machine_slowed);
  const double mean = std::max(1.0, report.duration_ns.mean);
  for (size_t p = 0; p < kPhaseCount; ++p) {
    evidence.set(fmt::format("phase.{}.share", phase_name(static_cast<Phase>(p))), report.phase_ns[p] / mean);
  }
  if (growing) add_phase_growth(evidence, recorder.windows(main_class(recorder)).closed());
  const double seconds = std::max(1e-9, report.seconds);
  for (const SeriesReport& series : report.series) {
    evidence.set(joined(series.name, "per_iteration"), series.per_iteration);
    evidence.set(joined(series.name, "per_second"), (series.last - series.first) / seconds);
    if (!series.verdict) continue;
    const bool series_grows = series.verdict->kind == Flatness::kGrowing;
    evidence.set(joined(series.name, "growing"), series_grows);
    if (growing && series_grows)
      evidence.set(joined(series.name, "drives_time"), exponent(report.time, *series.verdict));
  }
  const double disk = evidence.get("disk_bytes.per_iteration").value_or(0);
  if (disk > 0) {
    evidence.set("disk_bytes.weights_share", evidence.get("weight_bytes.per_iteration").value_or(0) / disk);
  }
  if (const SeriesReport* stolen = report.find_series("stolen_ns")) {
    evidence.set("stolen.share",
                 (stolen->last - stolen->first) * 1e-9 / seconds / std::max(1, report.machine.cores));
  }
  const double own_ns =
      report.overhead.per_iteration_ns * static_cast<double>(report.iterations) + report.overhead.sampling_ns;
  evidence.set("overhead.share", own_ns * 1e-9 / seconds);
}

void name_causes(RunReport& report) {
  report.causes = attribute(report.evidence);
  const SpikeReport& spikes = report.spikes;
  if (!spikes.period) return;
  report.causes.push_back(
      {fmt::format("spikes owned by {}, period {}", spikes.owner_name(), spikes.period->length),
       "do it less often, in smaller parts, or on another thread",
       fmt::format("{} spikes, {:.0f} % of the newest of this owner on the beat, {:.1f} % of the time",
                   spikes.count, 100 * spikes.period->share, 100 * spikes.time_share)});
}

}  // namespace

const SeriesReport* RunReport::find_series(std::string_view name_of_series) const {
  const auto found = std::find_if(series.begin(), series.end(), [&](const SeriesReport& candidate) {
    return candidate.name == name_of_series;
  });
  return found == series.end() ? nullptr : &*found;
}

std::vector<Window> main_windows(const RunReport& report) {
  std::map<int, int64_t> time;
  for (const WindowReport& one : report.windows) time[one.step_class] += one.window.total_ns;
  const auto most = std::ranges::max_element(time, {}, [](const auto& entry) { return entry.second; });
  std::vector<Window> result;
  for (const WindowReport& one : report.windows) {
    if (one.step_class == most->first) result.push_back(one.window);
  }
  return result;
}

RunReport make_report(const Recorder& recorder, std::string name, const ReportOptions& options) {
  const RunTotals& totals = recorder.totals();
  require(totals.iterations > 0, ErrorCode::kInvalidArgument, "make_report", "'{}' has recorded no iteration",
          name);
  const double iterations = static_cast<double>(totals.iterations);
  RunReport report;
  report.name = std::move(name);
  report.iterations = totals.iterations;
  report.warmup_iterations = totals.warmup_iterations;
  report.seconds = static_cast<double>(totals.elapsed_ns) * 1e-9;
  const auto capped = [&](double fraction) {  // a quantile inside the largest one's bucket must not exceed it
    return std::clamp(recorder.duration_quantile(fraction), static_cast<double>(totals.min_ns),
                      static_cast<double>(totals.max_ns));
  };
  report.duration_ns = {static_cast<double>(totals.min_ns),
                        static_cast<double>(totals.total_ns) / iterations,
                        capped(0.5),
                        capped(0.99),
                        capped(0.999),
                        static_cast<double>(totals.max_ns)};
  report.options = options.time;
  report.time = judge_time(recorder, options.time);
  report.level_options = options.levels;
  report.series = judge_series(recorder, options.levels);
  for (const Sample& sample : recorder.samples()) report.sample_iterations.push_back(sample.iteration);
  for (size_t p = 0; p < kPhaseCount; ++p) {
    report.phase_ns[p] = static_cast<double>(totals.phase_ns[p]) / iterations;
    report.between_phase_ns[p] = static_cast<double>(totals.between_phase_ns[p]) / iterations;
  }
  report.spikes = summarise_spikes(recorder);
  if (recorder.options().heap_allocations != nullptr) {
    report.heap_allocations_per_step = static_cast<double>(totals.heap_allocations) / iterations;
    report.allocating_steps = totals.allocating_iterations;
  }
  if (const SeriesReport* library = report.find_series("library_allocations")) {
    report.library_allocations_per_step = library->per_iteration;
  }
  report.system_allocations_per_step = report.find_series("system_allocations")->per_iteration;
  report.overhead = recorder.overhead();
  report.machine = describe_machine();
  for (int c : recorder.classes()) {
    for (const Window& window : recorder.windows(c).closed()) report.windows.push_back({c, window});
  }
  report.evidence = options.facts;
  add_evidence(report, recorder);
  name_causes(report);
  return report;
}

namespace {

thread_local int64_t t_simulated_ns = 0;

}  // namespace

RunReport make_report(std::span<const double> durations_ns, std::string name, int64_t warmup,
                      const ReportOptions& options) {
  const auto count = static_cast<int64_t>(durations_ns.size());
  require(warmup >= 0 && warmup < count, ErrorCode::kInvalidArgument, name,
          "of {} iterations, {} are warm-up; at least one must remain", count, warmup);
  t_simulated_ns = 0;
  Recorder recorder(
      {.classes = 1, .sample_interval_ns = int64_t{1} << 62, .reference_kernel = false, .clock = [] {
         return t_simulated_ns;
       }});
  for (int64_t i = 0; i < count; ++i) {
    const double ns = durations_ns[static_cast<size_t>(i)];
    require(ns > 0 && ns < 0x1p62 - static_cast<double>(t_simulated_ns), ErrorCode::kInvalidArgument, name,
            "iteration {} of {} lasted {} ns", i + 1, count, ns);
    if (i == warmup && warmup > 0) recorder.seal();
    recorder.begin_iteration();
    t_simulated_ns += std::max<int64_t>(1, std::llround(ns));
    recorder.end_iteration();
  }
  RunReport report = make_report(recorder, std::move(name), options);
  report.durations_only = true;
  report.series.clear();
  report.sample_iterations.clear();
  report.machine = {};
  report.overhead = {};
  report.evidence = options.facts;
  report.evidence.set("time.growing", report.time.kind == Flatness::kGrowing);
  name_causes(report);
  return report;
}

void compare_with_cured(RunReport& report, const RunReport& cured) {
  report.times_slower = report.duration_ns.p50 / std::max(1.0, cured.duration_ns.p50);
  report.evidence.set("time.slower", *report.times_slower);
  name_causes(report);
}

}  // namespace isochron::observe
