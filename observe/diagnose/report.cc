#include "isochron/observe/diagnose/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/observe/diagnose/evidence.h"
#include "isochron/observe/statistics/level_change.h"
#include "isochron/observe/statistics/recurring.h"

namespace isochron::observe {
namespace {

std::vector<double> starts_of(std::span<const Window> windows) {
  std::vector<double> starts;
  for (const Window& window : windows) starts.push_back(static_cast<double>(window.first_iteration));
  starts.push_back(windows.empty() ? 0 : static_cast<double>(windows.back().last_iteration + 1));
  return starts;
}

FlatnessVerdict judge_windows(const RunData& data) {
  struct Columns {
    std::vector<double> medians, trimmed_means, means, reference, reference_means, waited;
    std::vector<double> quiet_medians, quiet_means, quiet_shares, starts;
  };
  std::vector<Columns> columns;
  for (const ClassData& one : data.classes) {
    columns.push_back({window_medians(one.windows), window_trimmed_means(one.windows),
                       window_means(one.windows), window_reference_typical(one.windows),
                       window_reference_means(one.windows), window_waited(one.windows),
                       window_quiet_medians(one.windows), window_quiet_means(one.windows),
                       window_quiet_shares(one.windows), starts_of(one.windows)});
  }
  std::vector<ClassInput> inputs;
  for (size_t i = 0; i < data.classes.size(); ++i) {
    const double share = static_cast<double>(data.classes[i].total_ns) /
                         static_cast<double>(std::max<int64_t>(1, data.totals.total_ns));
    inputs.push_back({{.medians = columns[i].medians,
                       .trimmed_means = columns[i].trimmed_means,
                       .means = columns[i].means,
                       .reference = columns[i].reference,
                       .reference_means = columns[i].reference_means,
                       .waited = columns[i].waited,
                       .quiet_medians = columns[i].quiet_medians,
                       .quiet_means = columns[i].quiet_means,
                       .quiet_shares = columns[i].quiet_shares,
                       .starts = columns[i].starts,
                       .unit = data.options.unit,
                       .seconds = static_cast<double>(data.totals.elapsed_ns) * 1e-9},
                      share});
  }
  FlatnessOptions options = data.options.time;
  options.rise_settles = false;
  return judge_classes(inputs, options);
}

/// The windows' means without stalls.
std::vector<double> level_means(std::span<const Window> windows) {
  return with_long_iterations_spread(window_trimmed_means(windows), window_means(windows));
}

/// For each of 64 parts of the run, the mean iteration time if every iteration took the mean time of its
/// class. It changes only if the shares of the classes do.
std::vector<double> means_by_shares(std::span<const ClassData> classes) {
  constexpr size_t kParts = 64;
  double begin = kInfinity, end = 0;
  for (const ClassData& one : classes) {
    if (one.windows.empty()) continue;
    begin = std::min(begin, static_cast<double>(one.windows.front().first_iteration));
    end = std::max(end, static_cast<double>(one.windows.back().last_iteration + 1));
  }
  std::array<double, kParts> sums{}, counts{};
  for (const ClassData& one : classes) {
    if (one.windows.empty()) continue;
    const double level = mean(level_means(one.windows));
    for (const Window& window : one.windows) {
      const double first = static_cast<double>(window.first_iteration) - begin;
      const double length = static_cast<double>(window.last_iteration + 1 - window.first_iteration);
      for (size_t i = 0; i < kParts; ++i) {
        const double from = static_cast<double>(i) * (end - begin) / kParts;
        const double to = static_cast<double>(i + 1) * (end - begin) / kParts;
        const double within = std::min(to, first + length) - std::max(from, first);
        if (within <= 0) continue;
        const double count = static_cast<double>(window.iterations + window.passed) * within / length;
        sums[i] += count * level;
        counts[i] += count;
      }
    }
  }
  std::vector<double> means;
  for (size_t i = 0; i < kParts; ++i) {
    if (counts[i] > 0) means.push_back(sums[i] / counts[i]);
  }
  return means;
}

/// Even if each class is flat, the run isn't if slower classes become more frequent.
void doubt_changing_shares(FlatnessVerdict& verdict, const RunData& data) {
  if (verdict.kind != Flatness::kFlat || data.classes.size() < 2) return;
  FlatnessOptions options = data.options.time;
  options.rise_settles = false;
  options.min_windows = 0;
  const std::vector<double> means = means_by_shares(data.classes);
  const FlatnessVerdict shares = judge_flatness({.medians = means}, options);
  if (shares.kind != Flatness::kGrowing && shares.kind != Flatness::kShrinking) return;
  doubt(verdict, fmt::format("every class of steps is flat, but their shares of the steps change, which "
                             "changes the mean of all by {}",
                             percent(shares.largest.change)));
}

/// malloc takes memory in advance, and returns it in pieces smaller than this. If the resident set gains no
/// more than this while the memory in use stays level, the program doesn't hold more.
constexpr double kHeapPieces = 1 << 20;

std::vector<SeriesReport> judge_series(const RunData& data) {
  const std::vector<int64_t>& at = data.sample_iterations;
  const double iterations =
      static_cast<double>(at.empty() ? 1 : std::max<int64_t>(1, at.back() - at.front()));
  // Samples cover only this process, while a resumed run's time includes earlier processes.
  const double share =
      std::min(1.0, iterations / static_cast<double>(std::max<int64_t>(1, data.totals.iterations)));
  const auto judge = [&](const std::vector<double>& values, const FlatnessOptions& levels) {
    return judge_flatness({.medians = values,
                           .iterations_per_window = iterations / static_cast<double>(values.size()),
                           .first_iteration = at.empty() ? 0 : at.front(),
                           .seconds = share * static_cast<double>(data.totals.elapsed_ns) * 1e-9},
                          levels);
  };
  std::vector<SeriesReport> result;
  for (const NamedSeries& series : data.series) {
    SeriesReport report{series.name, series.cumulative, 0, 0, 0, std::nullopt, series.values};
    if (!series.values.empty()) {
      report.first = series.values.front();
      report.last = series.values.back();
      report.per_iteration = (report.last - report.first) / iterations;
    }
    if (!series.cumulative) {
      for (double& value : report.values) value = std::max(value, 0.0);  // a gauge may say -1 for unknown
      report.verdict = judge(report.values, data.options.levels);
    }
    result.push_back(std::move(report));
  }
  const auto named = [&](std::string_view name) {
    return std::ranges::find(result, name, &SeriesReport::name);
  };
  const auto resident = named("rss_bytes"), heap = named("heap_bytes");
  const bool judged = resident != result.end() && resident->verdict && heap != result.end() && heap->verdict;
  if (judged && heap->verdict->kind != Flatness::kGrowing && resident->first > 0 &&
      kHeapPieces / resident->first > data.options.levels.bound) {
    FlatnessOptions levels = data.options.levels;
    levels.bound = kHeapPieces / resident->first;
    resident->verdict = judge(resident->values, levels);
  }
  return result;
}

/// The usual gap between events, if nearly all gaps are about equal. `find_period` requires an exact period,
/// but a pool's chunk, for example, may last for 404 or 405 iterations. nullopt for fewer than six events.
std::optional<Period> nearly_even(std::span<const int64_t> iterations) {
  constexpr size_t kMin = 6;
  constexpr double kShortest = 50, kTolerance = 0.02, kShare = 0.8;
  if (iterations.size() < kMin) return std::nullopt;
  std::vector<double> gaps;
  for (size_t i = 1; i < iterations.size(); ++i)
    gaps.push_back(static_cast<double>(iterations[i] - iterations[i - 1]));
  const double usual = median(gaps);
  const auto even = std::ranges::count_if(
      gaps, [usual](double gap) { return std::abs(gap - usual) <= kTolerance * usual; });
  const double share = static_cast<double>(even) / static_cast<double>(gaps.size());
  if (usual < kShortest || share < kShare) return std::nullopt;
  return Period{std::llround(usual), share, share};
}

SpikeReport summarize_spikes(const RunData& data) {
  SpikeReport report;
  report.factor = data.spike_factor;
  report.count = data.totals.spikes;
  report.time_share = static_cast<double>(data.totals.spike_excess_ns) /
                      static_cast<double>(std::max<int64_t>(1, data.totals.total_ns));
  report.largest = data.largest_spikes;
  report.recent = data.recent_spikes;
  struct Group {
    double excess_ns = 0;
    std::vector<int64_t> iterations;
  };
  std::map<std::pair<Phase, std::string>, Group> groups;
  for (const SpikeRecord& spike : data.recent_spikes) {
    Group& group = groups[{spike.owner, spike.label}];
    group.excess_ns += static_cast<double>(spike.duration_ns - spike.usual_ns);
    group.iterations.push_back(spike.iteration);
  }
  const auto costliest = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.excess_ns < b.second.excess_ns;
  });
  if (costliest == groups.end()) {  // all spikes were in the earlier process that this run continues
    const auto& excess = data.totals.spike_excess_by_owner_ns;
    const auto most_of = std::ranges::max_element(excess);
    if (*most_of > 0) report.owner = static_cast<Phase>(most_of - excess.begin());
    return report;
  }
  const auto own = [&report](const auto& group) {
    std::tie(report.owner, report.label) = group.first;
    report.period = find_period(group.second.iterations);
    if (!report.period) report.period = nearly_even(group.second.iterations);
  };
  own(*costliest);
  if (report.period || !report.label.empty()) return report;
  // Random interruptions may cost more than periodic work of the program, but have no name.
  constexpr double kMinPart = 0.25;
  double most = kMinPart * costliest->second.excess_ns;
  for (const auto& group : groups) {
    if (group.first.second.empty() || group.second.excess_ns < most) continue;
    if (!find_period(group.second.iterations)) continue;
    own(group);
    most = group.second.excess_ns;
  }
  return report;
}

/// How much longer the run took than it would have at the speed of its first tenth after the `warmup`
/// windows.
double drift_seconds(const RunData& data, size_t warmup) {
  double ns = 0;
  for (const ClassData& one : data.classes) {
    const std::span<const Window> windows =
        std::span(one.windows).subspan(std::min(warmup, one.windows.size()));
    const size_t tenth = std::max<size_t>(1, windows.size() / 10);
    if (windows.size() < 2 * tenth) continue;
    const std::vector<double> means = level_means(windows);
    const double usual = mean(std::span(means).first(tenth));
    for (size_t i = 0; i < means.size(); ++i) {
      ns += (means[i] - usual) * static_cast<double>(windows[i].iterations + windows[i].passed);
    }
  }
  return ns * 1e-9;
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

FlatnessVerdict judge_time(const RunData& data) {
  FlatnessVerdict verdict = judge_windows(data);
  doubt_changing_shares(verdict, data);
  const bool counted = data.durations_only || verdict.iterations_to_decide == 0;  // warm-up included
  verdict.iterations_to_decide += counted ? 0 : data.totals.warmup_iterations;
  const bool long_enough =
      static_cast<double>(data.totals.elapsed_ns) * 1e-9 >= data.options.time.min_seconds;
  if (!long_enough) return verdict;
  return judge_ab_comparison(std::move(verdict), data.turns, data.options.time.bound);
}

RunReport make_report(const RunData& data) { return make_report(data, judge_time(data)); }

RunReport make_report(const RunData& data, FlatnessVerdict time) {
  const RunTotals& totals = data.totals;
  const double iterations = static_cast<double>(totals.iterations);
  const double timed = static_cast<double>(std::max<int64_t>(1, totals.timed_iterations));
  RunReport report;
  report.name = data.name;
  report.durations_only = data.durations_only;
  report.unit = data.options.unit;
  report.iterations = totals.iterations;
  report.warmup_iterations = totals.warmup_iterations;
  report.seconds = static_cast<double>(totals.elapsed_ns) * 1e-9;
  report.duration_ns = {static_cast<double>(totals.min_ns),
                        static_cast<double>(totals.total_ns) / timed,
                        data.p50_ns,
                        data.p99_ns,
                        data.p999_ns,
                        static_cast<double>(totals.max_ns)};
  report.options = data.options.time;
  report.time = std::move(time);
  report.level_options = data.options.levels;
  report.series = judge_series(data);
  report.sample_iterations = data.sample_iterations;
  for (size_t p = 0; p < kPhaseCount; ++p) {
    report.phase_ns[p] = static_cast<double>(totals.phase_ns[p]) / timed;
    const bool in_scope = static_cast<Phase>(p) != Phase::kUnexplained;
    report.between_phase_ns[p] =
        static_cast<double>(totals.between_phase_ns[p]) / (in_scope ? iterations : timed);
  }
  report.spikes = summarize_spikes(data);
  if (data.allocations_counted) {
    report.heap_allocations_per_step = static_cast<double>(totals.heap_allocations) / iterations;
    report.allocating_steps = totals.allocating_iterations;
  }
  if (const SeriesReport* library = report.find_series("library_allocations")) {
    report.library_allocations_per_step = library->per_iteration;
  }
  if (const SeriesReport* system = report.find_series("system_allocations")) {
    report.system_allocations_per_step = system->per_iteration;
  }
  report.begin_ns = data.begin_ns;
  report.events = data.events;
  report.overhead = data.overhead;
  report.machine = data.machine;
  report.ranks = data.ranks;
  for (const ClassData& one : data.classes) {
    for (const Window& window : one.windows) report.windows.push_back({one.step_class, window});
  }
  // If the machine was slow during the first tenth, the sum isn't positive.
  const double drift = drift_seconds(data, static_cast<size_t>(report.time.warmup_windows));
  if (report.time.kind == Flatness::kGrowing && drift > 0) report.drift_seconds = drift;
  report.evidence = data.options.facts;
  add_evidence(report);
  name_causes(report);
  return report;
}

void compare_with_cured(RunReport& report, const RunReport& cured) {
  report.times_slower = report.duration_ns.mean / std::max(1.0, cured.duration_ns.mean);
  report.median_times_slower = report.duration_ns.p50 / std::max(1.0, cured.duration_ns.p50);
  report.evidence.set("time.slower", *report.times_slower);
  name_causes(report);
}

}  // namespace isochron::observe
