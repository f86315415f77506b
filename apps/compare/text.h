// The text that `isochron compare` prints for a scenario.
#pragma once

#include <string>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// The text for a run with `options`: one table of the loops, then the diagnoses (loop, symptom, start,
/// causes and cure). If `options` are verbose, also the epochs, the numbers and reasons behind each verdict,
/// the loops' notes and the scenario's tables. Ends with a newline.
std::string scenario_text(const ScenarioResult& result, const CompareOptions& options);

/// The series for a loop's memory and files, each with a text that follows its growth in a table cell.
struct ShownSeries {
  const char* series;
  const char* where;
};
inline constexpr ShownSeries kMemoryAndDisk[] = {{"rss_bytes", ""}, {"disk_bytes", " on disk"}};
/// Memory and disk in one cell: "growing +644.00 MB, growing +16.30 MB on disk".
std::string memory_and_disk_cell(const observe::RunReport& report);

/// One row per loop and one column per epoch. All epochs count the same number of the document's iterations,
/// which is that of the shortest epoch of any loop. Epochs that weren't timed are shown as a dash.
observe::Table epochs_table(const ScenarioResult& result);
/// The time in ns of each epoch of the i-th loop, scaled to the number of iterations in epochs_table.
std::vector<double> comparable_epochs(const ScenarioResult& result, size_t i);

}  // namespace isochron::apps
