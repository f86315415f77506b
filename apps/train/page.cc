#include "isochron/apps/train/page.h"

#include <algorithm>

#include "isochron/observe/page.h"

namespace isochron::apps {
namespace {

using observe::escape_markup;
using observe::html_figure;
using observe::Plot;

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
  std::string body =
      fmt::format("<p class=\"result\">{}</p>\n<p>Tested on {}.</p>\n{}", escape_markup(outcome.result),
                  escape_markup(outcome.task), compared_table(outcome));
  for (const Plot& plot : outcome.plots) body += html_figure(plot);
  if (!outcome.sample.empty()) {
    body += fmt::format("<h2>A sample of its text</h2>\n<pre>{}</pre>\n",
                        escape_markup(valid_text(outcome.sample)));
  }
  body += html_figure(loss_plot(history));
  body += "<h2>The run: did it stay even?</h2>\n" + observe::run_section(report);
  body += fmt::format("<p class=\"small\">{}.</p>\n", escape_markup(settings));
  return observe::html_page(outcome.title, body);
}

}  // namespace isochron::apps
