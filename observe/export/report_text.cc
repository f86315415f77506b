// The three forms of a report: console table, JSON, CSV.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/table.h"

namespace isochron::observe {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string memory_cell(const RunReport& report) {
  const SeriesReport* rss = report.find_series("rss_bytes");
  if (rss == nullptr) return report.durations_only ? "-" : "unknown";
  const std::string_view verdict = rss->verdict ? flatness_name(rss->verdict->kind) : "";
  return fmt::format("{} {}", gained_text(*rss), verdict);
}

std::string slope_cell(const FlatnessVerdict& time) {
  return fmt::format("{:+.3g} [{:+.2g}, {:+.2g}]", time.slope, time.slope_interval.low,
                     time.slope_interval.high);
}

std::string cause_cell(const RunReport& report) {
  if (report.causes.empty()) return "-";
  std::string text = report.causes.front().name;
  if (report.causes.size() > 1) text += fmt::format(" (+{})", report.causes.size() - 1);
  return text;
}

Row time_row(const RunReport& report) {
  const FlatnessVerdict& time = report.time;
  const bool tenths = time.windows > 0 && time.first_tenth > 0;
  return {report.name,
          duration_text(report.duration_ns.mean),
          duration_text(report.duration_ns.p50),
          duration_text(report.duration_ns.p99),
          report.times_slower ? ratio_text(*report.times_slower) : "-",
          tenths ? duration_text(time.first_tenth) : "-",
          tenths ? duration_text(time.last_tenth) : "-",
          slope_cell(time),
          verdict_cell(time)};
}

Row resource_row(const RunReport& report) {
  const SeriesReport* nodes = report.find_series("graph_nodes");
  const SeriesReport* entries = report.find_series("tape_entries");  // a tape's entries are nodes too
  const double nodes_per_step = (nodes ? nodes->per_iteration : 0) + (entries ? entries->per_iteration : 0);
  return {report.name,
          fmt::format("{}", report.iterations),
          report.heap_allocations_per_step ? fmt::format("{:.4g}", *report.heap_allocations_per_step) : "-",
          fmt::format("{:.4g}", report.system_allocations_per_step),
          fmt::format("{:+.4g}", nodes_per_step),
          memory_cell(report),
          cause_cell(report)};
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json verdict_json(const FlatnessVerdict& verdict, const FlatnessOptions& options) {
  return {{"kind", flatness_name(verdict.kind)},
          {"machine_slowed", verdict.machine_slowed},
          {"change", verdict.largest.change},
          {"low", verdict.largest.low},
          {"high", verdict.largest.high},
          {"statistic", verdict.largest.name},
          {"bound", verdict.bound},
          {"confidence", options.confidence},
          {"first_tenth", verdict.first_tenth},
          {"last_tenth", verdict.last_tenth},
          {"slope", verdict.slope},
          {"slope_low", verdict.slope_interval.low},
          {"slope_high", verdict.slope_interval.high},
          {"mann_kendall_p", verdict.trend_test.p_value},
          {"kendall_tau", verdict.trend_test.tau},
          {"change_point_window", verdict.change_point},
          {"change_point_p", verdict.change_point_p},
          {"windows", verdict.windows},
          {"warmup_windows", verdict.warmup_windows},
          {"warmup_change", verdict.warmup_change},
          {"smallest_detectable_change", verdict.smallest_detectable_change},
          {"iterations_to_decide", verdict.iterations_to_decide},
          {"reason", verdict.reason}};
}

Json phases_json(const std::array<double, kPhaseCount>& phases) {
  Json json = Json::object();
  for (size_t p = 0; p < kPhaseCount; ++p) json[std::string(phase_name(static_cast<Phase>(p)))] = phases[p];
  return json;
}

Json spikes_document(const SpikeReport& spikes) {
  Json largest = Json::array();
  for (const SpikeRecord& spike : spikes.largest) {
    largest.push_back({{"iteration", spike.iteration},
                       {"duration_ns", spike.duration_ns},
                       {"owner", phase_name(spike.owner)},
                       {"label", spike.label}});
  }
  return {{"count", spikes.count},
          {"owner", phase_name(spikes.owner)},
          {"label", spikes.label},
          {"period", spikes.period ? Json(spikes.period->length) : Json(nullptr)},
          {"period_share", spikes.period ? Json(spikes.period->share) : Json(nullptr)},
          {"time_share", spikes.time_share},
          {"largest", std::move(largest)}};
}

Json series_json(const RunReport& report) {
  Json list = Json::array();
  for (const SeriesReport& series : report.series) {
    Json json = {{"name", series.name},
                 {"cumulative", series.cumulative},
                 {"first", series.first},
                 {"last", series.last},
                 {"per_iteration", series.per_iteration}};
    if (series.verdict) json["verdict"] = verdict_json(*series.verdict, report.level_options);
    list.push_back(std::move(json));
  }
  return list;
}

Json events_json(const RunReport& report) {
  Json json = Json::object();
  for (int k = 0; k < kEventKinds; ++k) {
    const EventTotals& totals = report.events.totals[static_cast<size_t>(k)];
    if (totals.count == 0) continue;
    json[std::string(event_kind_name(static_cast<EventKind>(k)))] = {
        {"count", totals.count}, {"total_ns", totals.total_ns}, {"longest_ns", totals.longest_ns}};
  }
  return json;
}

Json retraces_json(const RunReport& report) {
  Json list = Json::array();
  for (const Event& event : report.events.events) {
    if (event.kind != EventKind::kTrace || event.before.empty()) continue;
    list.push_back({{"name", event.name},
                    {"before", event.before},
                    {"after", event.after},
                    {"cost_ns", event.duration_ns},
                    {"at_s", static_cast<double>(event.time_ns - report.begin_ns) * 1e-9}});
  }
  return list;
}

Json environment_json(const MachineDescription& machine) {
  return {
      {"cpu", machine.cpu_model},
      {"cores", machine.cores},
      {"usable_cores", machine.usable_cores},
      {"core_quota", number_or_null(machine.core_quota)},
      {"memory_bytes", machine.memory_bytes},
      {"memory_limit_bytes", machine.memory_limit_bytes ? Json(*machine.memory_limit_bytes) : Json(nullptr)},
      {"transparent_huge_pages", machine.transparent_huge_pages},
      {"governor", machine.governor},
      {"kernel", machine.kernel},
      {"virtual_machine", machine.virtual_machine},
      {"isa", machine.isa}};
}

}  // namespace

std::string duration_text(double ns) {
  if (ns < 0) return fmt::format("-{}", duration_text(-ns));
  constexpr double kThousand = 999.5;  // from here, three digits would give 1.00e+03
  if (ns < kThousand) return fmt::format("{:#.3g} ns", ns);
  if (ns < kThousand * 1e3) return fmt::format("{:#.3g} us", ns * 1e-3);
  if (ns < kThousand * 1e6) return fmt::format("{:#.3g} ms", ns * 1e-6);
  if (ns < 120e9) return fmt::format("{:.2f} s", ns * 1e-9);
  if (ns < 7200e9) return fmt::format("{:#.3g} min", ns / 60e9);
  const double hours = ns / 3600e9;
  return hours < kThousand ? fmt::format("{:#.3g} h", hours) : fmt::format("{:.0f} h", hours);
}

std::string verdict_cell(const FlatnessVerdict& verdict) {
  std::string text(flatness_name(verdict.kind));
  if (verdict.largest.name.empty()) return text;
  return text + fmt::format(" {:+.1f} %", 100 * verdict.largest.change);
}

std::string ratio_text(double ratio) {
  if (ratio >= 100) return fmt::format("{:.0f}x", ratio);
  if (ratio >= 10) return fmt::format("{:.1f}x", ratio);
  return ratio >= 0.1 ? fmt::format("{:.2f}x", ratio) : fmt::format("{:.2g}x", ratio);
}

std::string bytes_text(double bytes) {
  if (bytes < 0) return fmt::format("-{}", bytes_text(-bytes));
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.2f} KB", bytes * 1e-3);
  if (bytes < 1e9) return fmt::format("{:.2f} MB", bytes * 1e-6);
  return fmt::format("{:.2f} GB", bytes * 1e-9);
}

std::string gained_text(const SeriesReport& series) {
  const bool judged = series.verdict && series.verdict->windows > 0;
  const double gained =
      judged ? series.verdict->last_tenth - series.verdict->first_tenth : series.last - series.first;
  return fmt::format("{}{}", gained < 0 ? "-" : "+", bytes_text(std::fabs(gained)));
}

std::string summary_text(std::span<const RunReport> reports) {
  std::vector<Row> times{
      {"loop", "mean", "median", "p99", "vs cured", "first 1/10", "last 1/10", "slope ns/step", "time"}};
  std::vector<Row> resources{
      {"loop", "steps", "heap/step", "system/step", "nodes/step", "resident memory", "cause"}};
  for (const RunReport& report : reports) {
    times.push_back(time_row(report));
    resources.push_back(resource_row(report));
  }
  const bool compared =
      std::ranges::any_of(reports, [](const RunReport& report) { return report.times_slower.has_value(); });
  for (Row& row : times) {
    if (!compared) row.erase(row.begin() + 4);
  }
  std::string text = aligned_text(times) + "\n" + aligned_text(resources) + "\n";
  for (const RunReport& report : reports) {
    if (report.time.kind == Flatness::kInconclusive) {
      text += fmt::format("  {}: inconclusive: {}", report.name, report.time.reason);
      if (std::isfinite(report.time.iterations_to_decide))
        text +=
            fmt::format("; about {:.3g} steps would be needed to decide", report.time.iterations_to_decide);
      text += "\n";
    }
    if (report.drift_seconds) {
      text += fmt::format("  {}: the growth cost {} of this run's {}\n", report.name,
                          duration_text(*report.drift_seconds * 1e9), duration_text(report.seconds * 1e9));
    }
    for (const SeriesReport& series : report.series) {
      if (!series.verdict || series.verdict->kind != Flatness::kGrowing) continue;
      // A level that rose once and then stayed, however late, isn't growth; the causes don't count it either.
      if (report.evidence.get(series.name + ".rise").value_or(1) <= 0) continue;
      // Free memory that an allocator keeps while it warms up; a cause would need more than this.
      if (series.name == "heap_free_bytes" &&
          report.evidence.get("heap_free_bytes.gained").value_or(4e6) < 4e6)
        continue;
      text += fmt::format("  {}: {} grows: {:.6g} -> {:.6g} (first tenth to last)\n", report.name,
                          series.name, series.verdict->first_tenth, series.verdict->last_tenth);
    }
    for (const Cause& cause : report.causes) {
      text += fmt::format("  {}: {} ({}); {}\n", report.name, cause.name, cause.evidence, cause.fix);
      if (!cause.consequences.empty())
        text += fmt::format("  {}: consequences: {}\n", report.name, fmt::join(cause.consequences, ", "));
    }
  }
  return text;
}

void print_table(std::FILE* file, std::span<const RunReport> reports) {
  fmt::print(file, "{}", summary_text(reports));
}

std::string to_json(const RunReport& report, int indent) {
  Json causes = Json::array();
  for (const Cause& cause : report.causes) {
    causes.push_back({{"name", cause.name},
                      {"fix", cause.fix},
                      {"evidence", cause.evidence},
                      {"consequences", cause.consequences}});
  }
  const Durations& duration = report.duration_ns;
  const Json json = {{"name", report.name},
                     {"iterations", report.iterations},
                     {"warmup_iterations", report.warmup_iterations},
                     {"seconds", report.seconds},
                     {"duration_ns",
                      {{"min", duration.min},
                       {"mean", duration.mean},
                       {"p50", duration.p50},
                       {"p99", duration.p99},
                       {"p999", duration.p999},
                       {"max", duration.max}}},
                     {"time", verdict_json(report.time, report.options)},
                     {"drift_seconds", number_or_null(report.drift_seconds)},
                     {"series", series_json(report)},
                     {"phases_ns", phases_json(report.phase_ns)},
                     {"between_phases_ns", phases_json(report.between_phase_ns)},
                     {"spikes", spikes_document(report.spikes)},
                     {"causes", std::move(causes)},
                     {"allocations",
                      {{"heap_per_step", number_or_null(report.heap_allocations_per_step)},
                       {"library_per_step", number_or_null(report.library_allocations_per_step)},
                       {"system_per_step", report.system_allocations_per_step},
                       {"allocating_steps", report.allocating_steps}}},
                     {"times_slower", number_or_null(report.times_slower)},
                     {"median_times_slower", number_or_null(report.median_times_slower)},
                     {"events", events_json(report)},
                     {"retraces", retraces_json(report)},
                     {"overhead",
                      {{"per_iteration_ns", report.overhead.per_iteration_ns},
                       {"timed_share", report.overhead.timed_share},
                       {"share", report.evidence.get("overhead.share").value_or(0)},
                       {"sampling_ns", report.overhead.sampling_ns},
                       {"bytes", report.overhead.bytes}}},
                     {"environment", environment_json(report.machine)}};
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string to_csv(const RunReport& report) {
  std::string text =
      "class,window,first_iteration,last_iteration,iterations,median_ns,mean_ns,max_ns,reference_ns,"
      "reference_mean_ns,waited_ns,quiet_iterations,quiet_median_ns,quiet_mean_ns";
  for (size_t p = 0; p < kPhaseCount; ++p) text += fmt::format(",{}_ns", phase_name(static_cast<Phase>(p)));
  text += "\n";
  int index = 0;
  for (size_t i = 0; i < report.windows.size(); ++i) {
    const auto& [step_class, window] = report.windows[i];
    const bool timed = window.reference.count > 0;
    index = i > 0 && report.windows[i - 1].step_class == step_class ? index + 1 : 0;
    text +=
        fmt::format("{},{},{},{},{},{:.1f},{:.1f},{},{},{},{:.1f}", step_class, index, window.first_iteration,
                    window.last_iteration, window.iterations, window.median_ns(), window.mean_ns(),
                    window.max_ns, timed ? fmt::format("{:.0f}", window.reference.typical_ns()) : "",
                    timed ? fmt::format("{:.0f}", window.reference.mean_ns()) : "", window.mean_waited_ns());
    const QuietIterations& quiet = window.quiet;
    text += quiet.iterations > 0
                ? fmt::format(",{},{:.1f},{:.1f}", quiet.iterations, quiet.median_ns(), quiet.mean_ns())
                : ",0,,";
    for (int64_t phase_ns : window.phase_ns) {
      text += fmt::format(",{:.1f}", static_cast<double>(phase_ns) / static_cast<double>(window.iterations));
    }
    text += "\n";
  }
  return text;
}

}  // namespace isochron::observe
