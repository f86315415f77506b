#include "isochron/observe/export/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "isochron/core/text/count_text.h"

namespace isochron::observe {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #f3f4f6; --line: #d5d9de;
        --flat: #1a7f37; --growing: #c4262e; --unsure: #8a6100; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --paper: #14171b; --faint: #1e2329; --line: #3a414a;
          --flat: #57c26d; --growing: #ff7b72; --unsure: #e3b341; }
}
body { margin: 0 auto; max-width: 1100px; padding: 16px; color: var(--ink); background: var(--paper);
       font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
p, pre, ul, figure { max-width: 800px; }
h1 { font-size: 1.5em; line-height: 1.25; margin: 0.4em 0; }
h2 { font-size: 1.15em; margin: 1.8em 0 0.6em; }
h3 { font-size: 1em; margin: 1.4em 0 0.4em; }
.result { font-size: 1.1em; padding: 12px 14px; border-left: 4px solid #3987e5; background: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 0 5px 18px; border-bottom: 1px solid var(--line); vertical-align: top;
         overflow-wrap: normal; white-space: nowrap; }
th { white-space: normal; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal; min-width: 7em; }
td.text, th.text { text-align: left; }
td.prose, th.prose { text-align: left; white-space: normal; }
tr.own td { font-weight: 600; }
figure { margin: 20px 0; }
pre { background: var(--faint); padding: 12px; overflow-x: auto; font-size: 0.85em; white-space: pre-wrap; }
details { border-top: 1px solid var(--line); padding: 6px 0; }
summary { cursor: pointer; }
.flat { color: var(--flat); font-weight: 600; }
.growing, .shrinking { color: var(--growing); font-weight: 600; }
.inconclusive { color: var(--unsure); font-weight: 600; }
.bar { display: flex; height: 18px; border-radius: 3px; overflow: hidden; margin: 10px 0; background: var(--faint); }
.key { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 0.5em; }
.small { font-size: 0.88em; opacity: 0.85; }
.narrow { display: none; }
@media (max-width: 640px) {
  .wide { display: none; } .narrow { display: block; } th, td { padding-left: 10px; }
  table { font-size: 0.88em; } th:not(:first-child) { overflow-wrap: anywhere; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards th { display: none; }
  .cards tr { border-bottom: 1px solid var(--line); padding: 6px 0; }
  .cards td { border: none; padding: 0; text-align: left; white-space: normal; }
  .cards tr.own td { font-weight: inherit; } .cards tr td:first-child { font-weight: 600; }
  .cards td > div:not(.small) { display: inline; } .cards td > div + div::before { content: "; "; }
  .cards td[data-label]::before { content: attr(data-label) ": "; opacity: 0.75; }
}
)";

constexpr std::array<std::string_view, kPhaseCount> kPhaseColors = {
    "#e8a33d", "#c061cb", "#3987e5", "#2ea583", "#8d99a6",
    "#d9544f", "#7a6cc9", "#5fb7c9", "#c7a17a", "#b0b7bf"};

/// The index of a window's quantile that is nearest to 95 %.
constexpr size_t kNearlyAll = 60;

/// A unit in which the times of a run have few digits, and its length in ns.
std::pair<const char*, double> unit_of(const RunReport& report) {
  constexpr std::pair<const char*, double> kUnits[] = {{"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}};
  for (const auto& unit : kUnits) {
    if (report.duration_ns.p50 >= 3 * unit.second) return unit;
  }
  return {"us", 1e3};
}

Plot time_plot(const RunReport& report) {
  const auto [unit, ns] = unit_of(report);
  Plot plot{.title = report.unit == "iteration" ? "Time of an iteration over the run" : "Time over the run",
            .x_label = report.unit,
            .y_label = unit,
            .whole_x = true};
  PlotSeries medians{.name = "median of a window"};
  PlotSeries means{.name = "mean of a window", .dashed = true};
  PlotSeries nearly_all{.name = "p95 of a window", .dashed = true};
  for (const Window& window : main_windows(report)) {
    const double middle = window.middle_iteration();
    medians.x.push_back(middle);
    medians.y.push_back(window.median_ns() / ns);
    means.x.push_back(middle);
    means.y.push_back(window.mean_ns() / ns);
    nearly_all.x.push_back(middle);
    nearly_all.y.push_back(window.quantiles_ns[kNearlyAll] / ns);
  }
  if (medians.y.empty()) return plot;
  const double low = std::min(std::ranges::min(medians.y), std::ranges::min(means.y));
  const double high =
      std::max({std::ranges::max(medians.y), std::ranges::max(means.y), std::ranges::max(nearly_all.y)});
  plot.log_y = low > 0 && high > 10 * low;
  // The axis starts at zero, so that small changes look small.
  if (!plot.log_y) plot.series.push_back({.name = {}, .x = {medians.x.front()}, .y = {0}, .line = false});
  plot.series.push_back(std::move(medians));
  plot.series.push_back(std::move(means));
  plot.series.push_back(std::move(nearly_all));
  return plot;
}

/// Levels of memory or disk that aren't always zero.
Plot memory_plot(const RunReport& report) {
  constexpr std::pair<std::string_view, std::string_view> kShown[] = {{"rss_bytes", "resident"},
                                                                      {"bytes_in_use", "tensors"},
                                                                      {"cached_bytes", "caches"},
                                                                      {"bytes_reserved", "reserved"},
                                                                      {"disk_bytes", "files on disk"}};
  Plot plot{
      .title = "Memory and disk over the run", .x_label = "iteration", .y_label = "MB", .whole_x = true};
  for (const auto& [name, label] : kShown) {
    const SeriesReport* series = report.find_series(name);
    if (series == nullptr || series->values.size() < 2) continue;
    if (std::ranges::max(series->values) < 1e5) continue;
    PlotSeries line{.name = std::string(label)};
    for (size_t i = 0; i < series->values.size(); ++i) {
      line.x.push_back(static_cast<double>(report.sample_iterations[i]));
      line.y.push_back(series->values[i] / 1e6);
    }
    plot.series.push_back(std::move(line));
  }
  if (!plot.series.empty()) plot.series.push_back({.name = {}, .x = {0}, .y = {0}, .line = false});
  return plot;
}

/// Mean time of an iteration in each window, by phase, stacked.
Plot phases_plot(const RunReport& report) {
  const auto [unit, ns] = unit_of(report);
  Plot plot{.title = "Where the time of an iteration goes, over the run",
            .x_label = "iteration",
            .y_label = unit,
            .whole_x = true,
            .filled = true};
  const std::vector<Window> windows = main_windows(report);
  if (windows.size() < 2) return plot;
  std::vector<double> sums(windows.size(), 0.0);
  const double mean = std::max(1.0, report.duration_ns.mean);
  for (size_t p = 0; p < kPhaseCount; ++p) {
    if (report.phase_ns[p] < 0.005 * mean) continue;  // too thin to see
    PlotSeries series{.name = std::string(phase_name(static_cast<Phase>(p))),
                      .x = {},
                      .y = {},
                      .color = std::string(kPhaseColors[p])};
    for (size_t w = 0; w < windows.size(); ++w) {
      const Window& window = windows[w];
      sums[w] += static_cast<double>(window.phase_ns[p]) / static_cast<double>(window.iterations) / ns;
      series.x.push_back(window.middle_iteration());
      series.y.push_back(sums[w]);
    }
    plot.series.push_back(std::move(series));
  }
  if (plot.series.size() < 2) plot.series.clear();  // not worth a plot
  if (!plot.series.empty()) {
    // The axis starts at zero.
    plot.series.push_back({.name = {}, .x = {plot.series[0].x.front()}, .y = {0}});
  }
  return plot;
}

std::string phases_markup(const RunReport& report) {
  const double mean = std::max(1.0, report.duration_ns.mean);
  std::string bar = "<div class=\"bar\">";
  std::string rows;
  for (size_t p = 0; p < kPhaseCount; ++p) {
    const double share = 100 * report.phase_ns[p] / mean;
    if (share < 0.05) continue;
    bar += fmt::format("<div style=\"width:{:.2f}%;background:{}\"></div>", share, kPhaseColors[p]);
    rows += fmt::format(
        "<tr><td><span class=\"key\" style=\"background:{}\"></span>{}</td><td>{}</td><td>{:.1f} "
        "%</td></tr>\n",
        kPhaseColors[p], phase_name(static_cast<Phase>(p)), duration_text(report.phase_ns[p]), share);
  }
  return fmt::format(
      "<h3>Where the time goes</h3>\n{}</div>\n<table>\n<tr><th>phase</th><th>per iteration</th>"
      "<th>share</th></tr>\n{}</table>\n",
      bar, rows);
}

std::string causes_markup(const RunReport& report) {
  if (report.causes.empty()) return "";
  std::string text = "<h3>Causes</h3>\n<ul>\n";
  for (const Cause& cause : report.causes) {
    text += fmt::format("<li><b>{}</b>: {}. <span class=\"small\">({})</span>", escape_markup(cause.name),
                        escape_markup(cause.fix), escape_markup(cause.evidence));
    if (!cause.consequences.empty())
      text += fmt::format("<br>Consequences: {}.",
                          escape_markup(fmt::format("{}", fmt::join(cause.consequences, ", "))));
    text += "</li>\n";
  }
  return text + "</ul>\n";
}

std::string levels_markup(const RunReport& report) {
  std::string rows;
  for (const SeriesReport& series : report.series) {
    if (!series.verdict || (series.first == 0 && series.last == 0)) continue;
    const bool bytes = series.name.find("bytes") != std::string::npos;
    const auto amount = [&](double value) {
      return bytes ? bytes_text(value) : fmt::format("{:.6g}", value);
    };
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", escape_markup(series.name),
                        amount(series.first), amount(series.last), verdict_markup(*series.verdict));
  }
  if (rows.empty()) return "";
  return "<h3>Memory, disk and counts</h3>\n<div class=\"scroll\"><table>\n<tr><th>level</th>"
         "<th>first</th><th>last</th><th>verdict</th></tr>\n" +
         rows + "</table></div>\n";
}

/// How many different spikes the report lists.
size_t shown_spikes(const SpikeReport& spikes) {
  std::set<int64_t> iterations;
  for (const auto* some : {&spikes.recent, &spikes.largest}) {
    for (const SpikeRecord& spike : *some) iterations.insert(spike.iteration);
  }
  return iterations.size();
}

/// Whether no iteration of the first windows was a spike. The recorder counts spikes only once the usual time
/// is known.
bool even_at_first(const RunReport& report) {
  constexpr size_t kUsualWindows = WindowSeries::kUsualWindows;
  std::map<int, std::vector<const Window*>> first;
  for (const auto& [step_class, window] : report.windows) {
    auto& windows = first[step_class];
    if (windows.size() < kUsualWindows) windows.push_back(&window);
  }
  return !first.empty() && std::ranges::all_of(first, [&](const auto& of_class) {
    std::vector<double> medians;
    double longest = 0;
    for (const Window* window : of_class.second) {
      medians.push_back(window->median_ns());
      longest = std::max(longest, static_cast<double>(window->max_ns));
    }
    return longest <= report.spikes.factor * median(medians);
  });
}

std::string spikes_markup(const RunReport& report) {
  const SpikeReport& spikes = report.spikes;
  const std::string times = spikes.factor == 2 ? "twice" : fmt::format("{:.3g} times", spikes.factor);
  if (spikes.count == 0 && !even_at_first(report)) return "";
  if (spikes.count == 0)
    return fmt::format("<p>No {} took more than {} the usual time.</p>\n", report.unit, times);
  std::string text = fmt::format("<p>{} took more than {} the usual time, {:.1f} % of the time",
                                 count_text(spikes.count, report.unit), times, 100 * spikes.time_share);
  if (!report.durations_only)  // its phases are unknown
    text += fmt::format("; most of that in <b>{}</b>", escape_markup(spikes.owner_name()));
  if (spikes.period) text += fmt::format(", every {} {}s", spikes.period->length, report.unit);
  if (!spikes.largest.empty())  // empty if all spikes were in an earlier process of this run
    text += fmt::format(". The longest: {} at {} {}",
                        duration_text(static_cast<double>(spikes.largest.front().duration_ns)), report.unit,
                        spikes.largest.front().iteration);
  const size_t shown = shown_spikes(spikes);
  if (shown > 0 && static_cast<int64_t>(shown) < spikes.count)
    text += fmt::format(". The plot shows {} of them: the newest and the longest", shown);
  return text + ".</p>\n";
}

std::string allocations_markup(const RunReport& report) {
  std::string text = "<p>Allocations per iteration: ";
  if (report.heap_allocations_per_step)
    text += fmt::format("{:.4g} on the heap, ", *report.heap_allocations_per_step);
  if (report.library_allocations_per_step)
    text += fmt::format("{:.4g} by libraries, ", *report.library_allocations_per_step);
  return text + fmt::format("{:.4g} from the system.</p>\n", report.system_allocations_per_step);
}

/// Spikes over the run by owner, with the usual duration.
Plot spike_plot(const RunReport& report) {
  Plot plot{.title = report.durations_only ? "Spikes" : "Spikes by their owner",
            .x_label = report.unit,
            .y_label = "ms",
            .log_y = true,
            .whole_x = true};
  using Spikes = std::map<int64_t, const SpikeRecord*>;  // by iteration: a spike may be in both lists
  std::map<std::string, Spikes> by_owner;
  for (const auto* spikes : {&report.spikes.recent, &report.spikes.largest}) {
    for (const SpikeRecord& spike : *spikes) {
      const std::string owner = report.durations_only ? "spike"
                                : spike.label.empty() ? std::string(phase_name(spike.owner))
                                                      : spike.label;
      by_owner[owner][spike.iteration] = &spike;
    }
  }
  if (by_owner.empty() || report.iterations < 2) return plot;
  constexpr size_t kMaxOwners = 5;  // in a plot; the last one is "others"
  Spikes others;
  while (by_owner.size() + (others.empty() ? 0 : 1) > kMaxOwners) {
    const auto least =
        std::ranges::min_element(by_owner, {}, [](auto& owner) { return owner.second.size(); });
    others.merge(least->second);
    by_owner.erase(least);
  }
  if (!others.empty()) by_owner["others"].merge(others);
  for (const auto& [owner, spikes] : by_owner) {
    PlotSeries series{.name = owner, .x = {}, .y = {}, .line = false, .markers = true};
    for (const auto& [iteration, spike] : spikes) {
      series.x.push_back(static_cast<double>(iteration));
      series.y.push_back(static_cast<double>(spike->duration_ns) / 1e6);
    }
    plot.series.push_back(std::move(series));
  }
  const double usual = report.duration_ns.p50 / 1e6;
  plot.series.push_back(
      {.name = "median of the run",
       .x = {0, static_cast<double>(report.iterations) +
                    static_cast<double>(report.durations_only ? report.warmup_iterations : 0)},
       .y = {usual, usual},
       .dashed = true});
  return plot;
}

/// The signatures for which captured functions were traced, each next to the previous one, and the cost.
std::string traces_markup(const RunReport& report) {
  const EventTotals& all = report.events.of(EventKind::kTrace);
  if (all.count == 0) return "";
  std::string rows;
  size_t shown = 0;
  for (const Event& event : report.events.events) {
    if (event.kind != EventKind::kTrace) continue;
    ++shown;
    rows += fmt::format(
        "<tr><td class=\"text\">{}</td><td class=\"prose\">{}</td><td "
        "class=\"prose\">{}</td><td>{}</td><td>{}</td></tr>\n",
        escape_markup(event.name), event.before.empty() ? "first" : escape_markup(event.before),
        escape_markup(event.after), duration_text(static_cast<double>(event.duration_ns)),
        duration_text(static_cast<double>(event.time_ns - report.begin_ns)));
  }
  const auto count = static_cast<size_t>(all.count);
  return fmt::format(
      "<h3>Traces</h3>\n<p>{} traces took {}{}.</p>\n<div class=\"scroll\"><table>\n<tr><th "
      "class=\"text\">function</th><th class=\"text\">previous signature</th><th class=\"text\">new "
      "signature</th><th>cost</th><th>time in the run</th></tr>\n{}</table></div>\n",
      all.count, duration_text(static_cast<double>(all.total_ns)),
      shown < count ? fmt::format("; {} of them are shown", shown) : "", rows);
}

std::string checkpoints_markup(const RunReport& report) {
  const EventTotals& all = report.events.of(EventKind::kCheckpoint);
  if (all.count == 0) return "";
  return fmt::format("<p>{} checkpoints were written, which took {} each on average and {} at most.</p>\n",
                     all.count,
                     duration_text(static_cast<double>(all.total_ns) / static_cast<double>(all.count)),
                     duration_text(static_cast<double>(all.longest_ns)));
}

std::string block_markup(const Paragraph& paragraph) {
  constexpr std::string_view kOpen[] = {"<p class=\"result\">", "<p>", "<p class=\"small\">", "<pre>"};
  const bool code = paragraph.style == Paragraph::Style::kCode;
  return fmt::format("{}{}{}\n", kOpen[static_cast<size_t>(paragraph.style)], escape_markup(paragraph.text),
                     code ? "</pre>" : "</p>");
}

std::string block_markup(const Table& table) { return table_markup(table); }

std::string block_markup(const Plot& plot) { return html_figure(plot); }

}  // namespace

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n</html>\n",
      escape_markup(title), kStyle, body);
}

std::string html_figure(const Plot& plot) {
  return fmt::format("<figure>\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n</figure>\n",
                     plot_svg(plot, {.width = 768, .height = 330}),
                     plot_svg(plot, {.width = 358, .height = 300}));
}

std::string record_page(const RunRecord& record) {
  std::string body;
  for (const RecordPart& part : record.parts) {
    if (!part.heading.empty()) body += fmt::format("<h2>{}</h2>\n", escape_markup(part.heading));
    for (const Block& block : part.blocks) {
      body += std::visit([](const auto& one) { return block_markup(one); }, block);
    }
    if (part.run) body += run_section(make_report(*part.run));
    if (part.kernels && part.kernels->steps > 0) body += kernel_table_section(*part.kernels);
    body += memory_section(part.memory);
    if (part.plan) body += plan_section(*part.plan);
  }
  return html_page(record.title, body);
}

std::string verdict_markup(const FlatnessVerdict& verdict) {
  const std::string_view name = flatness_name(verdict.kind);
  return fmt::format("<span class=\"{0}\">{0}</span>", name);
}

/// The change with its interval.
std::string change_text(const FlatnessVerdict& verdict) {
  if (verdict.largest.name.empty()) return "";
  return fmt::format(" Change {} [{}, {}] ({}).", percent(verdict.largest.change),
                     percent(verdict.largest.low), percent(verdict.largest.high), verdict.largest.name);
}

std::string run_section(const RunReport& report) {
  // Durations need not add up to the time of a run.
  std::string length = count_text(report.iterations, report.durations_only ? "value" : "iteration");
  if (!report.durations_only) length += fmt::format(" in {:.3g} s", report.seconds);
  if (!report.durations_only || report.warmup_iterations > 0)
    length += fmt::format(", after {} of warm-up", report.warmup_iterations);
  std::string text = fmt::format(
      "<p class=\"result\">The time{} is {}: {}.</p>\n<p>{}.{} Mean {}, "
      "median {}, p99 {}, longest {}.</p>\n",
      report.unit == "iteration" ? " of an iteration" : "", verdict_markup(report.time),
      escape_markup(report.time.reason), length, change_text(report.time),
      duration_text(report.duration_ns.mean), duration_text(report.duration_ns.p50),
      duration_text(report.duration_ns.p99), duration_text(report.duration_ns.max));
  if (report.drift_seconds) {
    text += fmt::format(
        "<p>The growth cost <b>{}</b> of this run, compared with the speed of its first tenth.</p>\n",
        duration_text(*report.drift_seconds * 1e9));
  }
  if (!report.durations_only) text += causes_markup(report);  // the advice is for programs that use Isochron
  if (const Plot plot = time_plot(report); !plot.series.empty()) text += html_figure(plot);
  text += spikes_markup(report);
  if (const Plot plot = spike_plot(report); !plot.series.empty()) text += html_figure(plot);
  if (report.durations_only) return text;
  text += phases_markup(report);
  if (const Plot plot = phases_plot(report); !plot.series.empty()) text += html_figure(plot);
  if (report.ranks) text += ranks_section(*report.ranks);
  if (const Plot plot = memory_plot(report); !plot.series.empty()) text += html_figure(plot);
  text += levels_markup(report);
  text += allocations_markup(report);
  text += traces_markup(report);
  text += checkpoints_markup(report);
  const double timed = report.overhead.timed_share;
  const std::string sampled =
      timed < 1 ? fmt::format(" (one in {:.3g}, chosen at random, was timed)", 1 / timed) : "";
  text += fmt::format(
      "<p class=\"small\">Recording took {:.2f} % of the time: {} per iteration on average{}, and {} for "
      "samples. It "
      "used {} of memory. {}.</p>\n",
      100 * report.evidence.get("overhead.share").value_or(0),
      duration_text(report.overhead.per_iteration_ns), sampled, duration_text(report.overhead.sampling_ns),
      bytes_text(static_cast<double>(report.overhead.bytes)), escape_markup(machine_text(report.machine)));
  return text;
}

}  // namespace isochron::observe
