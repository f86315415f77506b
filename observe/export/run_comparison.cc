#include "isochron/observe/export/run_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "isochron/core/base/error.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/table.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

constexpr size_t kMinWindows = 16;

/// The main class's windows after warm-up.
std::vector<Window> judged_windows(const RunReport& report) {
  std::vector<Window> windows = main_windows(report);
  const auto warmup = std::min<size_t>(windows.size(), static_cast<size_t>(report.time.warmup_windows));
  if (windows.size() - warmup >= kMinWindows)
    windows.erase(windows.begin(), windows.begin() + static_cast<int64_t>(warmup));
  require(windows.size() >= kMinWindows, ErrorCode::kInvalidArgument, report.name,
          "has {} windows; a comparison needs {}, that is, {} iterations of one kind", windows.size(),
          kMinWindows, kMinWindows);
  return windows;
}

/// A run's level and its error, the half width of a 95 % interval, both in logarithms.
struct Level {
  double log_ns = 0;
  double error = 0;
};

Level level_of(const std::vector<double>& windows) {
  const auto level = [](std::span<const double> values) { return std::log(trimmed_mean(values, 0.25)); };
  const Interval interval = bootstrap_interval(windows, level);
  return {level(windows), 0.5 * (interval.high - interval.low)};
}

/// What the comparison needs of one run.
struct RunLevels {
  Level medians, means;
  std::optional<double> log_reference;  // the reference kernel's usual time
  double waited = 0;                    // share of the time spent waiting for a core
};

RunLevels levels_of(const RunReport& report) {
  constexpr double kMaxWaited = 0.95;
  const std::vector<Window> windows = judged_windows(report);
  RunLevels levels{level_of(window_medians(windows)), level_of(window_means(windows)), {}};
  if (const std::vector<double> typical = window_reference_typical(windows); !typical.empty())
    levels.log_reference = std::log(trimmed_mean(typical, 0.25));
  double waited = 0, total = 0;
  for (const Window& window : windows) {
    waited += window.mean_waited_ns() * static_cast<double>(window.iterations);
    total += static_cast<double>(window.total_ns);
  }
  if (total > 0) levels.waited = std::min(waited / total, kMaxWaited);
  return levels;
}

std::vector<RunLevels> levels_of(std::span<const RunReport> reports) {
  require(!reports.empty(), ErrorCode::kInvalidArgument, "compare_runs", "no run to compare");
  std::vector<RunLevels> levels;
  for (const RunReport& report : reports) levels.push_back(levels_of(report));
  return levels;
}

/// Statistics of one quantity over a side's runs.
struct Sample {
  double mean = 0;
  double squares = 0;  // sum of the squared differences from the mean
  double count = 0;
};

template <typename Value>
Sample sample_of(std::span<const RunLevels> runs, Value value) {
  Sample sample{.count = static_cast<double>(runs.size())};
  for (const RunLevels& run : runs) sample.mean += value(run) / sample.count;
  for (const RunLevels& run : runs) sample.squares += std::pow(value(run) - sample.mean, 2);
  return sample;
}

/// Half of the 95 % interval of the difference of two means. It is Student's, with a variance pooled from
/// both samples and a prior deviation that is worth `known_degrees` degrees of freedom. Infinite if there are
/// no degrees of freedom.
double half_interval(const Sample& a, const Sample& b, double known_deviation, int known_degrees) {
  const int degrees = known_degrees + static_cast<int>(a.count + b.count) - 2;
  if (degrees == 0) return std::numeric_limits<double>::infinity();
  const double variance =
      (known_degrees * known_deviation * known_deviation + a.squares + b.squares) / degrees;
  return student_quantile(0.95, degrees) * std::sqrt(variance * (1 / a.count + 1 / b.count));
}

/// How much the machine may have contributed to the difference. No member is negative.
struct MachinePart {
  struct Kernel {
    double first_ns = 0, second_ns = 0;
  };
  std::optional<Kernel> kernel;                // the reference kernel's times, if both sides have them
  double slowed_first = 0, slowed_second = 0;  // upper limits, in logarithms
  double waited_first = 0, waited_second = 0;  // shares
};

MachinePart machine_part(std::span<const RunLevels> first, std::span<const RunLevels> second) {
  MachinePart part;
  const auto waited = [](const RunLevels& run) { return run.waited; };
  part.waited_first = sample_of(first, waited).mean;
  part.waited_second = sample_of(second, waited).mean;
  const auto timed = [](const RunLevels& run) { return run.log_reference.has_value(); };
  if (!std::ranges::all_of(first, timed) || !std::ranges::all_of(second, timed)) return part;
  const auto reference = [](const RunLevels& run) { return *run.log_reference; };
  const Sample a = sample_of(first, reference), b = sample_of(second, reference);
  const double difference = b.mean - a.mean;
  part.kernel = {std::exp(a.mean), std::exp(b.mean)};
  // Variation of the machine between the runs of a side is already part of the error between runs.
  const double usual = half_interval(a, b, 0, 0);
  const double beyond =
      std::isfinite(usual) ? std::max(0.0, std::abs(difference) - usual) : std::abs(difference);
  (difference > 0 ? part.slowed_second : part.slowed_first) = kLargestMachineExponent * beyond;
  return part;
}

TimeRatio ratio_of(std::span<const RunLevels> first, std::span<const RunLevels> second, Level RunLevels::*of,
                   const MachinePart& machine) {
  const auto level = [of](const RunLevels& run) { return (run.*of).log_ns; };
  const auto error = [of](const RunLevels& run) { return std::pow((run.*of).error, 2); };
  const Sample a = sample_of(first, level), b = sample_of(second, level);
  const double within =
      std::sqrt(sample_of(first, error).mean / a.count + sample_of(second, error).mean / b.count);
  const double runs = std::hypot(within, half_interval(a, b, kBetweenRuns, kBetweenRunsDegrees));
  // Other programs on the core delay a step, but also keep the core from idling, so that it needn't wake up.
  // So the ratio may err in either direction.
  const double waiting = std::hypot(std::log1p(-machine.waited_first), std::log1p(-machine.waited_second));
  const double below = std::hypot(runs, machine.slowed_second, waiting),
               above = std::hypot(runs, machine.slowed_first, waiting);
  const double difference = b.mean - a.mean;
  return {std::exp(difference), std::exp(difference - below), std::exp(difference + above)};
}

/// The run whose median step is in the middle.
size_t middle_run(std::span<const RunLevels> runs) {
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return runs[i].medians.log_ns; });
  return order[(order.size() - 1) / 2];
}

std::string change_text(double first, double second) {
  if (!(first > 0) || !std::isfinite(second)) return "";
  return fmt::format("{:+.1f} %", 100 * (second / first - 1));
}

ComparedQuantity duration(std::string name, double first, double second) {
  return {std::move(name), duration_text(first), duration_text(second), change_text(first, second)};
}

std::string causes_cell(const RunReport& report) {
  std::string text;
  for (const Cause& cause : report.causes) text += (text.empty() ? "" : ", ") + cause.name;
  return text.empty() ? "none" : text;
}

/// The name of a sampled series in a table: "heap allocations".
std::string plain_name(std::string_view series) {
  constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"rss_bytes", "resident memory"},
      {"own_waits", "waits of the loop's thread"},
      {"voluntary_switches", "switches of threads that wait"},
      {"involuntary_switches", "switches of threads that others displace"},
      {"stolen_ns", "time stolen by other virtual machines, ns"},
      {"library_allocations", "heap allocations of libraries"},
      {"system_allocations", "allocations from the system"},
      {"bytes_in_use", "memory of tensors, in use"},
      {"bytes_reserved", "memory of tensors, reserved"}};
  for (const auto& [name, plain] : kNames)
    if (name == series) return plain;
  std::string words(series);
  std::ranges::replace(words, '_', ' ');
  return words;
}

void add_levels(RunComparison& result, const RunReport& first, const RunReport& second) {
  for (const SeriesReport& one : first.series) {
    const SeriesReport* other = second.find_series(one.name);
    if (other == nullptr || one.name == "slow_readings") continue;  // slow_readings are the recorder's own
    const double a = one.cumulative ? one.per_iteration : one.last;
    const double b = other->cumulative ? other->per_iteration : other->last;
    const double largest = std::max(std::abs(a), std::abs(b));
    if (largest == 0 || std::abs(a - b) < 0.01 * largest) continue;  // equal values aren't worth a row
    const bool bytes = one.name.find("bytes") != std::string::npos;
    const auto amount = [&](double value) {
      return (bytes ? bytes_text(value) : fmt::format("{:.4g}", value)) + (one.cumulative ? " per step" : "");
    };
    result.quantities.push_back({plain_name(one.name), amount(a), amount(b), change_text(a, b)});
  }
}

void add_quantities(RunComparison& result, const RunReport& first, const RunReport& second) {
  result.quantities.push_back(
      {"iterations", std::to_string(first.iterations), std::to_string(second.iterations), ""});
  result.quantities.push_back(duration("median step", first.duration_ns.p50, second.duration_ns.p50));
  result.quantities.push_back(duration("mean step", first.duration_ns.mean, second.duration_ns.mean));
  result.quantities.push_back(duration("p99 step", first.duration_ns.p99, second.duration_ns.p99));
  result.quantities.push_back(duration("p99.9 step", first.duration_ns.p999, second.duration_ns.p999));
  for (size_t p = 0; p < kPhaseCount; ++p) {
    const double a = first.phase_ns[p], b = second.phase_ns[p];
    if (std::max(a, b) < 0.01 * std::max(first.duration_ns.mean, second.duration_ns.mean)) continue;
    result.quantities.push_back(duration(fmt::format("phase {}", phase_name(static_cast<Phase>(p))), a, b));
  }
  result.quantities.push_back({"time over the run", verdict_cell(first.time), verdict_cell(second.time), ""});
  result.quantities.push_back({"causes", causes_cell(first), causes_cell(second), ""});
  result.quantities.push_back({"spikes, share of the time",
                               fmt::format("{:.1f} %", 100 * first.spikes.time_share),
                               fmt::format("{:.1f} %", 100 * second.spikes.time_share), ""});
  add_levels(result, first, second);
}

void add_environment(RunComparison& result, const MachineDescription& first,
                     const MachineDescription& second) {
  const auto add = [&](const char* name, const std::string& a, const std::string& b) {
    if (a != b) result.environment.push_back({name, a, b, ""});
  };
  add("machine", machine_text(first), machine_text(second));
  add("kernel", first.kernel, second.kernel);
  add("usable cores", std::to_string(first.usable_cores), std::to_string(second.usable_cores));
  add("transparent huge pages", first.transparent_huge_pages, second.transparent_huge_pages);
  add("frequency governor", first.governor, second.governor);
}

std::string interval_text(const TimeRatio& ratio) {
  return fmt::format("{:.3f} times [{:.3f}, {:.3f}]", ratio.ratio, ratio.low, ratio.high);
}

/// What the machine contributed, if that is worth mentioning.
std::string machine_clause(const RunComparison& result) {
  constexpr double kRatio = 0.05, kWaited = 0.05;
  std::string text;
  if (result.machine && std::abs(std::log(*result.machine)) > kRatio)
    text += fmt::format(", on a machine whose reference kernel took {:.3f} times as long", *result.machine);
  const auto waited = [&](const char* which, double share) {
    if (share > kWaited)
      text += fmt::format(", and the {} run waited for a core for {:.0f} % of its time", which, 100 * share);
  };
  waited("first", result.first_waited);
  waited("second", result.second_waited);
  return text;
}

std::string conclude(const RunComparison& result) {
  const TimeRatio& medians = result.medians;
  if (!medians.differs()) {
    return fmt::format(
        "No difference in the median step was detected: the second run takes {} as long as the first{}",
        interval_text(medians), machine_clause(result));
  }
  return fmt::format("The second run's median step takes {} as long as the first's{}: it is {}",
                     interval_text(medians), machine_clause(result), medians.ratio > 1 ? "slower" : "faster");
}

/// Explains the intervals.
std::string explanation(const RunComparison& result) {
  const std::string means =
      fmt::format("Means of windows, without the quarters of the longest and the shortest: {}. ",
                  interval_text(result.means));
  if (result.first_runs + result.second_runs > 2) {
    return means + fmt::format(
                       "The intervals have 95 % confidence, over {} and {} runs; the tables show the median "
                       "run of each.",
                       result.first_runs, result.second_runs);
  }
  return means + fmt::format(
                     "The intervals have 95 % confidence, if equal runs differ by {:.0f} % (one standard "
                     "deviation); to measure that instead, give two folders with several runs each.",
                     100 * kBetweenRuns);
}

const RunData& only_run(const RunRecord& record) {
  const RunData* run = nullptr;
  for (const RecordPart& part : record.parts) {
    if (!part.run) continue;
    require(run == nullptr, ErrorCode::kInvalidArgument, record.title,
            "contains more than one run; compare records of one run each");
    run = &*part.run;
  }
  require(run != nullptr, ErrorCode::kInvalidArgument, record.title, "contains no run");
  return *run;
}

std::vector<std::vector<std::string>> rows_of(const std::vector<ComparedQuantity>& quantities) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedQuantity& one : quantities)
    rows.push_back({one.name, one.first, one.second, one.change});
  return rows;
}

/// The values of a setting in one side's records, each distinct value once.
std::string setting_of(std::span<const RunRecord> records, const std::string& name) {
  std::vector<std::string> values;
  for (const RunRecord& record : records) {
    const auto found =
        std::ranges::find(record.settings, name, [](const auto& setting) { return setting.first; });
    const std::string value = found == record.settings.end() ? "-" : found->second;
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

void add_settings(RunComparison& result, std::span<const RunRecord> first,
                  std::span<const RunRecord> second) {
  std::vector<std::string> names;
  for (const auto& side : {first, second}) {
    for (const RunRecord& record : side) {
      for (const auto& [name, value] : record.settings) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  }
  for (const std::string& name : names) {
    std::string of_first = setting_of(first, name), of_second = setting_of(second, name);
    if (of_first != of_second)
      result.settings.push_back({name, std::move(of_first), std::move(of_second), ""});
  }
}

PlotSeries series_of(const RunReport& report, const std::string& name) {
  PlotSeries series{.name = name};
  for (const Window& window : main_windows(report)) {
    series.x.push_back(window.middle_iteration());
    series.y.push_back(window.median_ns() / 1e3);
  }
  return series;
}

}  // namespace

RunComparison compare_runs(std::span<const RunReport> first, std::span<const RunReport> second) {
  const std::vector<RunLevels> a = levels_of(first), b = levels_of(second);
  RunComparison result;
  const MachinePart machine = machine_part(a, b);
  result.medians = ratio_of(a, b, &RunLevels::medians, machine);
  result.means = ratio_of(a, b, &RunLevels::means, machine);
  result.first_waited = machine.waited_first;
  result.second_waited = machine.waited_second;
  result.first_runs = static_cast<int>(first.size());
  result.second_runs = static_cast<int>(second.size());
  result.first = first[middle_run(a)];
  result.second = second[middle_run(b)];
  add_quantities(result, result.first, result.second);
  if (machine.kernel) {
    const auto& [first_ns, second_ns] = *machine.kernel;
    result.machine = second_ns / first_ns;
    result.environment.push_back(duration("reference kernel", first_ns, second_ns));
  }
  result.environment.push_back({"waited for a core, share of the time",
                                fmt::format("{:.1f} %", 100 * machine.waited_first),
                                fmt::format("{:.1f} %", 100 * machine.waited_second), ""});
  add_environment(result, result.first.machine, result.second.machine);
  result.conclusion = conclude(result);
  return result;
}

RunComparison compare_records(std::span<const RunRecord> first, std::span<const RunRecord> second) {
  const auto reports_of = [](std::span<const RunRecord> records) {
    std::vector<RunReport> reports;
    for (const RunRecord& record : records) reports.push_back(make_report(only_run(record)));
    return reports;
  };
  RunComparison result = compare_runs(reports_of(first), reports_of(second));
  add_settings(result, first, second);
  for (const ComparedQuantity& setting : result.settings) {
    if (setting.name == "model")
      result.conclusion = fmt::format("The runs have different models, {} and {}. {}", setting.first,
                                      setting.second, result.conclusion);
  }
  return result;
}

std::string comparison_text(const RunComparison& comparison, const std::string& first,
                            const std::string& second) {
  std::string text = fmt::format("{}.\n{}\n\n", comparison.conclusion, explanation(comparison));
  std::vector<std::vector<std::string>> rows = {{"", first, second, "change"}};
  for (const auto* part : {&comparison.quantities, &comparison.settings, &comparison.environment}) {
    for (auto& row : rows_of(*part)) rows.push_back(std::move(row));
  }
  return text + aligned_text(rows);
}

RunRecord comparison_record(const RunComparison& comparison, const std::string& first_name,
                            const std::string& second_name) {
  RunRecord record{.title = fmt::format("{} and {}", first_name, second_name), .parts = {}};
  RecordPart part;
  part.blocks.push_back(Paragraph{Paragraph::Style::kResult, comparison.conclusion + "."});
  part.blocks.push_back(Paragraph{Paragraph::Style::kText, explanation(comparison)});
  Plot plot{.title = "Median step over the run", .x_label = "iteration", .y_label = "us", .whole_x = true};
  plot.series.push_back(series_of(comparison.first, first_name));
  plot.series.push_back(series_of(comparison.second, second_name));
  plot.series.push_back({.name = {}, .x = {plot.series[0].x.front()}, .y = {0}, .line = false});
  part.blocks.push_back(std::move(plot));
  const std::pair<const char*, const std::vector<ComparedQuantity>*> tables[] = {
      {"Measured", &comparison.quantities},
      {"Settings that differ", &comparison.settings},
      {"The machine", &comparison.environment}};
  for (const auto& [title, quantities] : tables) {
    if (quantities->empty()) continue;
    part.blocks.push_back(Table{title, {"", first_name, second_name, "change"}, rows_of(*quantities)});
  }
  record.parts.push_back(std::move(part));
  return record;
}

}  // namespace isochron::observe
