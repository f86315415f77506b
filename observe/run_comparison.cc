#include "isochron/observe/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "isochron/core/error.h"
#include "isochron/observe/report.h"
#include "isochron/observe/statistics.h"
#include "isochron/observe/table.h"

namespace isochron::observe {
namespace {

constexpr size_t kLeastWindows = 8;

/// The windows of most of the steps after warm-up.
std::vector<Window> judged_windows(const RunReport& report) {
  std::vector<Window> windows = main_windows(report);
  const auto warmup = std::min<size_t>(windows.size(), static_cast<size_t>(report.time.warmup_windows));
  if (windows.size() - warmup >= kLeastWindows)
    windows.erase(windows.begin(), windows.begin() + static_cast<int64_t>(warmup));
  require(windows.size() >= kLeastWindows, ErrorCode::kInvalidArgument, report.name,
          "has {} windows; a comparison needs {}, so {} iterations of one kind", windows.size(),
          kLeastWindows, kLeastWindows);
  return windows;
}

TimeRatio ratio_of(const std::vector<double>& first, const std::vector<double>& second) {
  const auto level = [](std::span<const double> values) { return std::log(midmean(values)); };
  const double a = level(first), b = level(second);
  const Interval of_a = bootstrap_interval(first, level),
                 of_b = bootstrap_interval(second, level, {.seed = 2});
  const double below = std::hypot(b - of_b.low, of_a.high - a),
               above = std::hypot(of_b.high - b, a - of_a.low);
  return {std::exp(b - a), std::exp(b - a - below), std::exp(b - a + above)};
}

std::string change_text(double first, double second) {
  if (!(first > 0) || !std::isfinite(second)) return "";
  return fmt::format("{:+.1f} %", 100 * (second / first - 1));
}

ComparedQuantity duration(std::string name, double first, double second) {
  return {std::move(name), duration_text(first), duration_text(second), change_text(first, second)};
}

std::string verdict_cell(const FlatnessVerdict& verdict) {
  return fmt::format("{} {:+.1f} %", flatness_name(verdict.kind), 100 * verdict.largest.change);
}

std::string causes_cell(const RunReport& report) {
  std::string text;
  for (const Cause& cause : report.causes) text += (text.empty() ? "" : ", ") + cause.name;
  return text.empty() ? "none" : text;
}

double typical_reference(const std::vector<Window>& windows) {
  const std::vector<double> typical = window_reference_typical(windows);
  return typical.empty() ? 0 : median(typical);
}

void add_levels(RunComparison& result, const RunReport& first, const RunReport& second) {
  for (const SeriesReport& one : first.series) {
    const SeriesReport* other = second.find_series(one.name);
    if (other == nullptr) continue;
    const double a = one.cumulative ? one.per_iteration : one.last;
    const double b = other->cumulative ? other->per_iteration : other->last;
    const double largest = std::max(std::abs(a), std::abs(b));
    if (largest == 0 || std::abs(a - b) < 0.01 * largest) continue;  // what is the same, nobody asks for
    const bool bytes = one.name.find("bytes") != std::string::npos;
    const auto amount = [&](double value) {
      return (bytes ? bytes_text(value) : fmt::format("{:.4g}", value)) + (one.cumulative ? " a step" : "");
    };
    result.quantities.push_back({one.name, amount(a), amount(b), change_text(a, b)});
  }
}

void add_quantities(RunComparison& result, const RunReport& first, const RunReport& second) {
  result.quantities.push_back(
      {"iterations", std::to_string(first.iterations), std::to_string(second.iterations), ""});
  result.quantities.push_back(duration("median step", first.duration_ns.p50, second.duration_ns.p50));
  result.quantities.push_back(duration("mean step", first.duration_ns.mean, second.duration_ns.mean));
  result.quantities.push_back(
      duration("99 % of the steps within", first.duration_ns.p99, second.duration_ns.p99));
  result.quantities.push_back(duration("99.9 % within", first.duration_ns.p999, second.duration_ns.p999));
  for (size_t p = 0; p < kPhaseCount; ++p) {
    const double a = first.phase_ns[p], b = second.phase_ns[p];
    if (std::max(a, b) < 0.01 * std::max(first.duration_ns.mean, second.duration_ns.mean)) continue;
    result.quantities.push_back(duration(fmt::format("phase {}", phase_name(static_cast<Phase>(p))), a, b));
  }
  result.quantities.push_back({"time over the run", verdict_cell(first.time), verdict_cell(second.time), ""});
  result.quantities.push_back({"causes named", causes_cell(first), causes_cell(second), ""});
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

std::string ratio_text(const TimeRatio& ratio) {
  return fmt::format("{:.3f} times [{:.3f}, {:.3f}]", ratio.ratio, ratio.low, ratio.high);
}

std::string conclude(const RunComparison& result) {
  const TimeRatio& medians = result.medians;
  if (!medians.differs()) {
    return fmt::format(
        "No difference in the median step could be told: the second takes {} as long as the first",
        ratio_text(medians));
  }
  return fmt::format("The second run's median step takes {} as long as the first's: it is {}",
                     ratio_text(medians), medians.ratio > 1 ? "slower" : "faster");
}

const RunData& only_run(const RunRecord& record) {
  const RunData* run = nullptr;
  for (const RecordPart& part : record.parts) {
    if (!part.run) continue;
    require(run == nullptr, ErrorCode::kInvalidArgument, record.title,
            "holds more than one run; compare records of one run each");
    run = &*part.run;
  }
  require(run != nullptr, ErrorCode::kInvalidArgument, record.title, "holds no run");
  return *run;
}

std::vector<std::vector<std::string>> rows_of(const std::vector<ComparedQuantity>& quantities) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedQuantity& one : quantities)
    rows.push_back({one.name, one.first, one.second, one.change});
  return rows;
}

PlotSeries series_of(const RunReport& report, const std::string& name) {
  PlotSeries series{.name = name};
  for (const Window& window : main_windows(report)) {
    series.x.push_back(0.5 * static_cast<double>(window.first_iteration + window.last_iteration));
    series.y.push_back(window.median_ns() / 1e3);
  }
  return series;
}

}  // namespace

RunComparison compare_runs(const RunReport& first, const RunReport& second) {
  const std::vector<Window> a = judged_windows(first), b = judged_windows(second);
  RunComparison result;
  result.medians = ratio_of(window_medians(a), window_medians(b));
  result.means = ratio_of(window_means(a), window_means(b));
  add_quantities(result, first, second);
  if (const double before = typical_reference(a), after = typical_reference(b); before > 0 && after > 0) {
    result.environment.push_back(duration("reference kernel", before, after));
  }
  add_environment(result, first.machine, second.machine);
  result.conclusion = conclude(result);
  return result;
}

RunComparison compare_records(const RunRecord& first, const RunRecord& second) {
  RunComparison result = compare_runs(make_report(only_run(first)), make_report(only_run(second)));
  const auto find = [](const RunRecord& record, const std::string& name) -> std::string {
    const auto found =
        std::ranges::find(record.settings, name, [](const auto& setting) { return setting.first; });
    return found == record.settings.end() ? "-" : found->second;
  };
  for (const auto& [name, value] : first.settings) {
    if (const std::string other = find(second, name); other != value)
      result.settings.push_back({name, value, other, ""});
  }
  for (const auto& [name, value] : second.settings) {
    if (find(first, name) == "-" && value != "-") result.settings.push_back({name, "-", value, ""});
  }
  return result;
}

std::string comparison_text(const RunComparison& comparison, const std::string& first,
                            const std::string& second) {
  std::string text = fmt::format("{}.\nMeans: {}.\n\n", comparison.conclusion, ratio_text(comparison.means));
  std::vector<std::vector<std::string>> rows = {{"", first, second, "change"}};
  for (const auto* part : {&comparison.quantities, &comparison.settings, &comparison.environment}) {
    for (auto& row : rows_of(*part)) rows.push_back(std::move(row));
  }
  return text + aligned_text(rows);
}

RunRecord comparison_record(const RunComparison& comparison, const RunReport& first, const RunReport& second,
                            const std::string& first_name, const std::string& second_name) {
  RunRecord record{.title = fmt::format("{} and {}", first_name, second_name), .parts = {}};
  RecordPart part;
  part.blocks.push_back(Paragraph{Paragraph::Style::kResult, comparison.conclusion + "."});
  part.blocks.push_back(Paragraph{Paragraph::Style::kText, fmt::format("Means: {}. Intervals hold with 95 %.",
                                                                       ratio_text(comparison.means))});
  Plot plot{.title = "Median step over the run", .x_label = "iteration", .y_label = "us", .whole_x = true};
  plot.series.push_back(series_of(first, first_name));
  plot.series.push_back(series_of(second, second_name));
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
