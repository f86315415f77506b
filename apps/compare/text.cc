#include "isochron/apps/compare/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "isochron/apps/compare/diagnosis.h"

namespace isochron::apps {
namespace {

using observe::duration_text;
using observe::RunReport;

std::string marked_name(const Loop& loop) { return fmt::format("{}{}", loop.name, loop.cured ? " *" : ""); }

std::string loops_text(const ScenarioResult& result) {
  std::vector<std::vector<std::string>> rows{
      {"  loop (* cured)", "mean", "median", "vs cured", "memory", "time"}};
  for (size_t i = 0; i < result.loops.size(); ++i) {
    const Loop& loop = result.scenario->loops[i];
    const RunReport& report = result.loops[i].report;
    rows.push_back({fmt::format("  {}", marked_name(loop)),
                    duration_text(per_iteration(loop, report.duration_ns.mean)),
                    duration_text(per_iteration(loop, report.duration_ns.p50)),
                    report.times_slower ? observe::ratio_text(*report.times_slower) : "-",
                    memory_and_disk_cell(report), verdict_cell(report.time)});
  }
  return observe::aligned_text(rows);
}

std::string diagnosis_text(const Diagnosis& diagnosis) {
  std::string text = fmt::format("\n  {}: {}{}{}\n", diagnosis.loop, diagnosis.what,
                                 diagnosis.since.empty() ? "" : ", since ", diagnosis.since);
  if (!diagnosis.also.empty()) text += fmt::format("    also: {}\n", diagnosis.also);
  if (diagnosis.causes.empty()) text += "    no cause found\n";
  for (const observe::Cause& cause : diagnosis.causes)
    text += fmt::format("    cause: {}; cure: {}\n", cause.name, cause.fix);
  return text;
}

/// Numbers, reasons, notes and tables.
std::string details_text(const ScenarioResult& result) {
  std::vector<RunReport> reports;
  for (const LoopResult& loop : result.loops) reports.push_back(loop.report);
  std::string text = fmt::format("\n{}", observe::summary_text(reports));
  for (const LoopResult& loop : result.loops) {
    for (const std::string& note : loop.notes) text += fmt::format("  {}: {}\n", loop.report.name, note);
  }
  if (const observe::Table epochs = epochs_table(result); !epochs.rows.empty())
    text += fmt::format("\n{}", observe::table_text(epochs));
  for (const observe::Table& table : result.tables) text += fmt::format("\n{}", observe::table_text(table));
  return text + fmt::format("\n{}\n", result.scenario->summary);
}

/// The deviations from the expectation; inconclusive findings are in one line.
std::string findings_text(const ScenarioResult& result, const CompareOptions& options) {
  const bool shortened = options.iterations > 0 || options.seconds < CompareOptions{}.seconds;
  std::string text;
  std::vector<std::string> inconclusive;
  for (const LoopResult& loop : result.loops) {
    if (loop.finding() == Finding::kInconclusive) inconclusive.push_back(loop.report.name);
    for (const Deviation& deviation : loop.deviations) {
      if (!deviation.inconclusive)
        text += fmt::format("\n  {}: {}: {}\n",
                            shortened ? "not as expected, as the run may be too short" : "not as expected",
                            loop.report.name, deviation.text);
    }
  }
  if (inconclusive.empty()) return text;
  const std::string longer =
      options.iterations > 0
          ? std::string("without --iterations")
          : fmt::format("with --seconds {:g} --budget {:g}", std::max(10.0, 2 * options.seconds),
                        std::max(600.0, 2 * options.budget_seconds));
  return text +
         fmt::format(
             "\n  inconclusive, because other programs were running or the run was too short: {}\n    a "
             "longer run: the same command {}\n",
             fmt::join(inconclusive, ", "), longer);
}

double epoch_work(const Loop& loop) {
  return static_cast<double>(loop.iterations_per_epoch * loop.work_per_iteration);
}

/// The document's iterations in the scenario's shortest epoch.
double least_epoch_work(const Scenario& scenario) {
  double least = std::numeric_limits<double>::infinity();
  for (const Loop& loop : scenario.loops) least = std::min(least, epoch_work(loop));
  return least;
}

}  // namespace

std::string memory_and_disk_cell(const RunReport& report) {
  std::string text;
  for (const auto& [name, where] : kMemoryAndDisk) {
    const observe::SeriesReport* series = report.find_series(name);
    if (series == nullptr) continue;
    const std::string_view verdict = series->verdict ? flatness_name(series->verdict->kind) : "";
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", verdict, gained_text(*series), where);
  }
  return text.empty() ? "-" : text;
}

std::vector<double> comparable_epochs(const ScenarioResult& result, size_t i) {
  const double part = least_epoch_work(*result.scenario) / epoch_work(result.scenario->loops[i]);
  std::vector<double> epochs = result.loops[i].epochs_ns;
  for (double& ns : epochs) ns *= part;
  return epochs;
}

observe::Table epochs_table(const ScenarioResult& result) {
  observe::Table table{.title = fmt::format("Time of each epoch of {:g} iterations (* cured)",
                                            least_epoch_work(*result.scenario)),
                       .columns = {"loop"}};
  size_t most = 0;
  for (const LoopResult& loop : result.loops) most = std::max(most, loop.epochs_ns.size());
  if (most == 0) return table;
  for (size_t e = 1; e <= most; ++e) table.columns.push_back(fmt::format("{}", e));
  for (size_t i = 0; i < result.loops.size(); ++i) {
    std::vector<std::string> row{marked_name(result.scenario->loops[i])};
    for (const double ns : comparable_epochs(result, i)) row.push_back(duration_text(ns));
    row.resize(most + 1, "-");
    table.rows.push_back(std::move(row));
    if (epoch_work(result.scenario->loops[i]) != least_epoch_work(*result.scenario))
      table.says = "Longer epochs are scaled to the same number of iterations.";
  }
  return table;
}

std::string scenario_text(const ScenarioResult& result, const CompareOptions& options) {
  std::string text = fmt::format("\n{}: \"{}\"\n\n{}", result.scenario->name, result.scenario->complaint,
                                 loops_text(result));
  for (const Diagnosis& diagnosis : diagnoses_of(result)) text += diagnosis_text(diagnosis);
  if (options.verbose) text += details_text(result);
  return text + findings_text(result, options);
}

}  // namespace isochron::apps
