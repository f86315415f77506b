#include "isochron/apps/train/page.h"

#include <algorithm>
#include <cmath>

namespace isochron::apps {
namespace {

using observe::Paragraph;
using observe::Plot;
using observe::Table;

Table compared_table(const TrainOutcome& outcome) {
  Table table{.columns = {"test"}, .rows = {}, .own_row = 0};
  table.columns.insert(table.columns.end(), outcome.measures.begin(), outcome.measures.end());
  for (const ComparedRow& row : outcome.compared) {
    std::vector<std::string> cells = {row.name};
    for (const double value : row.values) cells.push_back(fmt::format("{:.4g}", value));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// The training loss and, if measured, the validation loss over epochs. Losses that aren't finite are left
/// out.
Plot loss_plot(const train::History& history) {
  Plot plot{
      .title = "Loss in training", .x_label = "epoch", .y_label = "mean loss of the epoch", .whole_x = true};
  const std::pair<const char*, const char*> lines[] = {{"loss", "training"}, {"val_loss", "validation"}};
  for (const auto& [name, label] : lines) {
    observe::PlotSeries series{.name = label, .x = {}, .y = {}, .markers = history.epochs().size() <= 40};
    for (const train::EpochRecord& record : history.epochs()) {
      if (const double* value = record.results.find(name); value != nullptr && std::isfinite(*value)) {
        series.x.push_back(record.epoch);
        series.y.push_back(*value);
      }
    }
    if (!series.x.empty()) plot.series.push_back(std::move(series));
  }
  if (plot.series.empty()) return plot;  // interrupted in the first epoch, or nothing is finite
  const std::vector<double>& y = plot.series.front().y;
  const auto [low, high] = std::ranges::minmax(y);
  plot.log_y = low > 0 && high > 10 * low;
  return plot;
}

}  // namespace

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

observe::RunRecord train_record(const TrainOutcome& outcome, const std::string& summary,
                                std::vector<std::pair<std::string, std::string>> settings,
                                const train::History& history, observe::RunData run) {
  observe::RunRecord record{.title = outcome.title, .settings = std::move(settings), .parts = {}};
  observe::RecordPart outcome_part;
  std::vector<observe::Block>& blocks = outcome_part.blocks;
  blocks.push_back(Paragraph{Paragraph::Style::kResult, outcome.result});
  if (!outcome.task.empty()) {
    blocks.push_back(Paragraph{Paragraph::Style::kText, fmt::format("Tested on {}.", outcome.task)});
    blocks.push_back(compared_table(outcome));
  }
  for (const Plot& plot : outcome.plots) blocks.push_back(plot);
  if (!outcome.sample.empty()) {
    blocks.push_back(Paragraph{Paragraph::Style::kText, "A sample of its text:"});
    blocks.push_back(Paragraph{Paragraph::Style::kCode, valid_text(outcome.sample)});
  }
  if (Plot plot = loss_plot(history); !plot.series.empty()) blocks.push_back(std::move(plot));
  record.parts.push_back(std::move(outcome_part));
  record.parts.push_back({.heading = "Time and memory over the run", .blocks = {}, .run = std::move(run)});
  record.parts.push_back({.blocks = {Paragraph{Paragraph::Style::kSmall, summary + "."}}});
  return record;
}

}  // namespace isochron::apps
