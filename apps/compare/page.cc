#include "isochron/apps/compare/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isochron/apps/compare/diagnosis.h"
#include "isochron/apps/compare/tally.h"
#include "isochron/apps/compare/text.h"
#include "isochron/observe/export/page.h"

namespace isochron::apps {
namespace {

using observe::duration_text;
using observe::escape_markup;
using observe::Plot;
using observe::PlotSeries;
using observe::RunReport;

/// The iteration at which the document of `long-run` says training becomes slow.
constexpr int64_t kMarkedIteration = 1500;

/// A plot over iterations, with an axis that fits runs of all lengths.
Plot plot_over_iterations(const ScenarioResult& result, const std::string& what, const char* unit) {
  return {.title = fmt::format("{}: {}", result.scenario->name, what),
          .x_label = "iteration",
          .y_label = unit,
          .log_x = true,
          .marks = {{static_cast<double>(kMarkedIteration), count_text(kMarkedIteration)}}};
}

/// The loops' mean iteration times; cured forms are dashed.
Plot time_plot(const ScenarioResult& result) {
  Plot plot = plot_over_iterations(result, "mean time of an iteration", "us");
  plot.log_y = true;
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const Loop& loop = result.scenario->loops[i];
    const RunReport& report = result.loops[i].report;
    if (report.windows.empty()) continue;
    PlotSeries series{.name = report.name, .dashed = loop.cured};
    for (const observe::Window& window : main_windows(report)) {
      const double middle = window.middle_iteration() + 1;
      series.x.push_back(middle * static_cast<double>(loop.work_per_iteration));
      series.y.push_back(per_iteration(loop, window.mean_ns()) / 1e3);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

/// The memory that each loop took since its beginning; no series for a loop with fewer than two samples.
Plot memory_plot(const ScenarioResult& result) {
  Plot plot = plot_over_iterations(result, "memory taken since the loop began (resident)", "MB");
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const Loop& loop = result.scenario->loops[i];
    const RunReport& report = result.loops[i].report;
    const observe::SeriesReport* resident = report.find_series("rss_bytes");
    if (resident == nullptr || resident->values.size() < 2) continue;
    PlotSeries series{.name = report.name, .dashed = loop.cured};
    for (size_t s = 0; s < resident->values.size(); ++s) {
      series.x.push_back(static_cast<double>((report.sample_iterations[s] + 1) * loop.work_per_iteration));
      series.y.push_back((resident->values[s] - resident->values.front()) / 1e6);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot epochs_plot(const ScenarioResult& result, const std::string& title) {
  Plot plot{.title = title, .x_label = "epoch", .y_label = "us", .log_y = true, .whole_x = true};
  for (size_t i = 0; i < result.loops.size(); ++i) {
    PlotSeries series{
        .name = result.loops[i].report.name, .markers = true, .dashed = result.scenario->loops[i].cured};
    for (const double ns : comparable_epochs(result, i)) {
      series.x.push_back(static_cast<double>(series.x.size() + 1));
      series.y.push_back(ns / 1e3);
    }
    if (!series.x.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

/// A table cell that also contains its column's name, for narrow screens (observe/export/page.cc).
std::string cell(const char* column, const std::string& markup, const char* style = "prose") {
  return fmt::format("<td class=\"{}\" data-label=\"{}\">{}</td>", style, column, markup);
}

/// One line per cause; `none` if there is no cause.
std::string lines_markup(std::span<const observe::Cause> causes, const char* none, const auto& text_of) {
  std::string text;
  for (const observe::Cause& cause : causes) text += fmt::format("<div>{}</div>", text_of(cause));
  return causes.empty() ? none : text;
}

std::string what_markup(const Diagnosis& diagnosis) {
  const bool growing = diagnosis.kind <= Diagnosis::Kind::kFills;
  std::string text =
      fmt::format("<span{}>{}</span>", growing ? " class=\"growing\"" : "", escape_markup(diagnosis.what));
  if (!diagnosis.also.empty())
    text += fmt::format("<div class=\"small\">also: {}</div>", escape_markup(diagnosis.also));
  return text;
}

std::string diagnoses_markup(std::span<const ScenarioResult> results) {
  const std::vector<Diagnosis> diagnoses = diagnoses_of(results);
  if (diagnoses.empty()) return "";
  std::string text =
      "<table class=\"cards\">\n<tr><th>loop</th><th class=\"prose\">what happens</th><th "
      "class=\"prose\">since</th><th class=\"prose\">cause and cure</th></tr>\n";
  for (const Diagnosis& diagnosis : diagnoses) {
    const auto cause_and_cure = [](const observe::Cause& cause) {
      return fmt::format("<b>{}</b>: {}", escape_markup(cause.name), escape_markup(cause.fix));
    };
    text += fmt::format("<tr><td><b>{}</b> <span class=\"small\">{}</span></td>{}{}{}</tr>\n",
                        escape_markup(diagnosis.loop), diagnosis.scenario,
                        cell("what happens", what_markup(diagnosis)),
                        cell("since", diagnosis.since.empty() ? "-" : escape_markup(diagnosis.since)),
                        cell("cause and cure", lines_markup(diagnosis.causes, "none found", cause_and_cure)));
  }
  return text + "</table>\n";
}

std::string memory_markup(const RunReport& report) {
  const std::string text = memory_and_disk_cell(report);
  const bool grows = std::ranges::any_of(kMemoryAndDisk, [&](const auto& shown) {
    const observe::SeriesReport* series = report.find_series(shown.series);
    return series != nullptr && series->verdict && series->verdict->kind == observe::Flatness::kGrowing;
  });
  return grows ? fmt::format("<span class=\"growing\">{}</span>", text) : text;
}

std::string loops_table(const ScenarioResult& result) {
  std::string text =
      "<div class=\"scroll\"><table class=\"cards\">\n<tr><th>loop</th><th>mean</th><th>median</th><th>vs "
      "cured</th><th class=\"text\">time</th><th class=\"prose\">memory and disk</th><th "
      "class=\"prose\">causes</th></tr>\n";
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const Loop& loop = result.scenario->loops[i];
    const RunReport& report = result.loops[i].report;
    text += fmt::format(
        "<tr{}><td>{}</td>{}{}{}{}{}{}</tr>\n", loop.cured ? " class=\"own\"" : "",
        escape_markup(report.name + (loop.cured ? " (cured)" : "")),
        cell("mean", duration_text(per_iteration(loop, report.duration_ns.mean)), ""),
        cell("median", duration_text(per_iteration(loop, report.duration_ns.p50)), ""),
        cell("vs cured", report.times_slower ? observe::ratio_text(*report.times_slower) : "-", ""),
        cell("time",
             fmt::format("<span class=\"{}\">{}</span>", flatness_name(report.time.kind),
                         verdict_cell(report.time)),
             "text"),
        cell("memory and disk", memory_markup(report)),
        cell("causes",
             lines_markup(report.causes, "-", [](const auto& cause) { return escape_markup(cause.name); })));
  }
  return text +
         "</table></div>\n<p class=\"small\">Times are per iteration; <i>vs cured</i> compares means, which "
         "include pauses.</p>\n";
}

std::string loop_details(const Loop& loop, const LoopResult& result) {
  std::string text = fmt::format("<details><summary><b>{}</b>: {}</summary>\n",
                                 escape_markup(result.report.name), escape_markup(loop.what));
  for (const Deviation& deviation : result.deviations)
    text +=
        fmt::format("<p><b>{}:</b> {}.</p>\n", deviation.inconclusive ? "Inconclusive" : "Not as expected",
                    escape_markup(deviation.text));
  for (const std::string& note : result.notes) text += fmt::format("<p>{}.</p>\n", escape_markup(note));
  return text + observe::run_section(result.report) + "</details>\n";
}

std::string scenario_section(const ScenarioResult& result) {
  std::string text =
      fmt::format("<h2>{}</h2>\n<p>The complaint: \"{}\".</p>\n", escape_markup(result.scenario->name),
                  escape_markup(result.scenario->complaint));
  for (const Plot& plot : {time_plot(result), memory_plot(result)}) {
    if (!plot.series.empty()) text += observe::html_figure(plot);
  }
  text += loops_table(result);
  text += fmt::format("<p>{}</p>\n", escape_markup(result.scenario->summary));
  if (observe::Table epochs = epochs_table(result); !epochs.rows.empty()) {
    text += observe::html_figure(epochs_plot(result, std::exchange(epochs.title, "")));
    text += observe::table_markup(epochs);
  }
  for (const observe::Table& table : result.tables) text += observe::table_markup(table);
  text += "<h3>Each loop in detail</h3>\n";
  for (size_t i = 0; i < result.loops.size(); ++i)
    text += loop_details(result.scenario->loops[i], result.loops[i]);
  return text;
}

}  // namespace

std::string device_text(Device device) {
  return device.is_cpu() ? "Ran on the CPU; no GPU was used." : fmt::format("Ran on {}.", device.str());
}

std::string compare_page(std::span<const ScenarioResult> scenarios, Device device) {
  Tally tally;
  tally.add(scenarios);
  std::string body = fmt::format("<p class=\"result\">{} {}</p>\n{}", headline(scenarios),
                                 device_text(device), diagnoses_markup(scenarios));
  for (const ScenarioResult& result : scenarios) body += scenario_section(result);
  body +=
      fmt::format("<p class=\"small\">Compared with the expected results: {}.</p>\n", tally.latest_text());
  return observe::html_page("Training that slows down, and its cures", body);
}

std::string scenario_figure(const ScenarioResult& result) {
  const Plot plot = time_plot(result);
  return plot.series.empty() ? "" : observe::svg_file(plot, {.width = 800, .height = 380});
}

}  // namespace isochron::apps
