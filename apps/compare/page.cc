#include "isochron/apps/compare/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "isochron/apps/compare/tally.h"
#include "isochron/observe/page.h"

namespace isochron::apps {
namespace {

using observe::escape_markup;
using observe::Plot;
using observe::RunReport;

/// Each loop's time over its own run, whatever its length; cured forms dashed.
Plot loops_plot(const ChapterResult& result) {
  Plot plot{.title = fmt::format("{}: time of an iteration, from each loop's beginning to its end",
                                 result.chapter->name),
            .x_label = "% of the run",
            .y_label = "us",
            .log_y = true};
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const RunReport& report = result.loops[i].report;
    if (report.windows.empty()) continue;
    observe::PlotSeries series{.name = report.name, .dashed = result.chapter->loops[i].cured};
    const std::vector<observe::Window> windows = main_windows(report);
    const double last = static_cast<double>(windows.back().last_iteration) + 1;
    for (const observe::Window& window : windows) {
      series.x.push_back(50 * static_cast<double>(window.first_iteration + window.last_iteration) / last);
      series.y.push_back(window.median_ns() / 1e3);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string memory_text(const RunReport& report) {
  const observe::SeriesReport* resident = report.find_series("rss_bytes");
  const observe::SeriesReport* disk = report.find_series("disk_bytes");
  std::string text;
  for (const auto& [series, what] : {std::pair{resident, ""}, {disk, " on disk"}}) {
    if (series == nullptr) continue;
    text += fmt::format("{}{}{}", text.empty() ? "" : "<br>", gained_text(*series), what);
    if (series->verdict) text += fmt::format(" {}", observe::verdict_markup(*series->verdict));
  }
  return text;
}

/// On a narrow screen memory and cause stand below the rest of a row (observe/page.cc).
std::string chapter_table(const ChapterResult& result) {
  std::string text =
      "<div class=\"scroll loops\"><table>\n<tr><th>loop</th><th>iteration</th><th>slower</th><th "
      "class=\"text\">time</th><th class=\"text more\">memory</th><th class=\"text more\">cause</th></tr>\n";
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const RunReport& report = result.loops[i].report;
    const std::string memory = memory_text(report);
    const bool none = report.causes.empty();
    text += fmt::format(
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td><td class=\"text "
        "more{}\">{}</td><td "
        "class=\"prose more{}\">{}</td></tr>\n",
        result.chapter->loops[i].cured ? " class=\"own\"" : "", escape_markup(report.name),
        observe::duration_text(report.duration_ns.p50),
        report.times_slower ? fmt::format("{:.3g}x", *report.times_slower) : "-",
        observe::verdict_markup(report.time), memory.empty() ? " none" : "", memory, none ? " none" : "",
        none ? "-" : escape_markup(report.causes.front().name));
  }
  return text + "</table></div>\n";
}

std::string chapter_section(const ChapterResult& result) {
  std::string text = fmt::format(
      "<h2>{}</h2>\n<p>The complaint: \"{}\".</p>\n<p>{}</p>\n", escape_markup(result.chapter->name),
      escape_markup(result.chapter->complaint), escape_markup(result.chapter->summary));
  text += chapter_table(result);
  if (const Plot plot = loops_plot(result); !plot.series.empty()) text += observe::html_figure(plot);
  for (const observe::Table& table : result.tables) text += observe::table_markup(table);
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const LoopResult& loop = result.loops[i];
    text += fmt::format("<details><summary><b>{}</b>: {}</summary>\n", escape_markup(loop.report.name),
                        escape_markup(result.chapter->loops[i].what));
    for (const Deviation& deviation : loop.deviations)
      text += fmt::format("<p><b>Not as expected:</b> {}.</p>\n", escape_markup(deviation.text));
    for (const std::string& note : loop.notes) text += fmt::format("<p>{}.</p>\n", escape_markup(note));
    text += observe::run_section(loop.report) + "</details>\n";
  }
  return text;
}

}  // namespace

std::string compare_page(std::span<const ChapterResult> chapters) {
  Tally tally;
  tally.add(chapters);
  std::string body = fmt::format(
      "<p class=\"result\">{}.</p>\n<p>Each chapter runs the loops of one complaint about training that "
      "slows down, as they are written and cured (bold), on the same "
      "model and data. <i>Slower</i> is against the cured form; the verdicts are over each loop's own "
      "run.</p>\n",
      tally.latest_text());
  for (const ChapterResult& result : chapters) body += chapter_section(result);
  return observe::html_page("Training that slows down, and its cures", body);
}

std::string chapter_figure(const ChapterResult& result) {
  const Plot plot = loops_plot(result);
  return plot.series.empty() ? "" : observe::svg_file(plot, {.width = 800, .height = 380});
}

}  // namespace isochron::apps
