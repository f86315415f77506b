#include "isochron/apps/train/page.h"

#include <algorithm>

namespace isochron::apps {
namespace {

using observe::escape_markup;
using observe::Plot;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #f3f4f6; --line: #d5d9de; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --paper: #14171b; --faint: #1e2329; --line: #3a414a; }
}
body { margin: 0 auto; max-width: 800px; padding: 16px; color: var(--ink); background: var(--paper);
       font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5em; line-height: 1.25; margin: 0.4em 0; }
h2 { font-size: 1.15em; margin: 1.8em 0 0.6em; }
.result { font-size: 1.1em; padding: 12px 14px; border-left: 4px solid #3987e5; background: var(--faint); }
table { border-collapse: collapse; }
th, td { text-align: right; padding: 5px 0 5px 18px; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.own td { font-weight: 600; }
figure { margin: 20px 0; }
pre { background: var(--faint); padding: 12px; overflow-x: auto; font-size: 0.85em; white-space: pre-wrap; }
.small { font-size: 0.88em; opacity: 0.85; }
.narrow { display: none; }
@media (max-width: 640px) { .wide { display: none; } .narrow { display: block; } }
)";

/// Drawn twice, so that its text has the page's size on a desk and on a phone.
std::string figure(const Plot& plot) {
  return fmt::format("<figure>\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n</figure>\n",
                     observe::plot_svg(plot, {.width = 768, .height = 330}),
                     observe::plot_svg(plot, {.width = 358, .height = 300}));
}

std::string compared_table(const TrainOutcome& outcome) {
  std::string text = "<table>\n<tr><th>test</th>";
  for (const std::string& measure : outcome.measures) {
    text += fmt::format("<th>{}</th>", escape_markup(measure));
  }
  text += "</tr>\n";
  for (const ComparedRow& row : outcome.compared) {
    text += fmt::format("<tr{}><td>{}</td>", &row == &outcome.compared[0] ? " class=\"own\"" : "",
                        escape_markup(row.name));
    for (const double value : row.values) text += fmt::format("<td>{:.4g}</td>", value);
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

/// Loss against epochs, of training and, where measured, of validation.
Plot loss_plot(const train::History& history) {
  Plot plot{
      .title = "Loss in training", .x_label = "epoch", .y_label = "mean loss of the epoch", .whole_x = true};
  const std::pair<const char*, const char*> lines[] = {{"loss", "training"}, {"val_loss", "validation"}};
  for (const auto& [name, label] : lines) {
    observe::PlotSeries series{.name = label, .x = {}, .y = {}, .markers = history.epochs.size() <= 40};
    for (const train::EpochRecord& record : history.epochs) {
      if (const double* value = record.results.find(name)) {
        series.x.push_back(record.epoch);
        series.y.push_back(*value);
      }
    }
    if (!series.x.empty()) plot.series.push_back(std::move(series));
  }
  const std::vector<double>& y = plot.series.front().y;
  const auto [low, high] = std::ranges::minmax(y);
  plot.log_y = low > 0 && high > 10 * low;
  return plot;
}

std::string flatness_text(const observe::RunReport& report) {
  return fmt::format(
      "<p>The time of a step over the run: <b>{}</b> ({}). {} steps after warm-up, median {}, 99 % within "
      "{}.</p>\n",
      observe::flatness_name(report.time.kind), escape_markup(report.time.reason), report.iterations,
      observe::duration_text(report.duration_ns.p50), observe::duration_text(report.duration_ns.p99));
}

/// Bytes that are no UTF-8 as question marks, so that the page stays valid.
std::string valid_text(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                                                        : 0;
    bool whole = length > 0 && i + length <= text.size();
    for (size_t k = 1; whole && k < length; ++k) {
      whole = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
    }
    result += whole ? text.substr(i, length) : "?";
    i += whole ? length : 1;
  }
  return result;
}

}  // namespace

std::string compared_text(const TrainOutcome& outcome) {
  size_t widest = 0;
  for (const ComparedRow& row : outcome.compared) widest = std::max(widest, row.name.size());
  std::string text;
  for (const ComparedRow& row : outcome.compared) {
    text += fmt::format("  {:<{}}", row.name, widest);
    for (size_t i = 0; i < row.values.size(); ++i) {
      text += fmt::format("  {} {}", fmt::format("{:.4g}", row.values[i]), outcome.measures[i]);
    }
    text += "\n";
  }
  return text;
}

std::string train_page(const TrainOutcome& outcome, const std::string& settings,
                       const train::History& history, const observe::RunReport& report) {
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p class=\"result\">{2}</p>\n"
      "<p>Tested on {3}.</p>\n{4}",
      escape_markup(outcome.title), kStyle, escape_markup(outcome.result), escape_markup(outcome.task),
      compared_table(outcome));
  for (const Plot& plot : outcome.plots) page += figure(plot);
  if (!outcome.sample.empty()) {
    page += fmt::format("<h2>A sample of its text</h2>\n<pre>{}</pre>\n",
                        escape_markup(valid_text(outcome.sample)));
  }
  page += "<h2>The run</h2>\n" + flatness_text(report);
  page += figure(loss_plot(history));
  page += fmt::format("<p class=\"small\">{}. {}.</p>\n</body>\n</html>\n", escape_markup(settings),
                      escape_markup(observe::machine_text(report.machine)));
  return page;
}

}  // namespace isochron::apps
