// What `isochron compare` prints of a scenario.
#pragma once

#include <string>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// The text for a run with `options`: one table of the loops, then the diagnoses (loop, symptom, start,
/// causes and cure). If `options` are verbose, also the epochs, the numbers and reasons behind each verdict,
/// the loops' notes and the scenario's tables. Ends with a newline.
std::string scenario_text(const ScenarioResult& result, const CompareOptions& options);

/// The series of a loop's memory and files, and what a cell says after their growth.
struct ShownSeries {
  const char* series;
  const char* where;
};
inline constexpr ShownSeries kMemoryAndDisk[] = {{"rss_bytes", ""}, {"disk_bytes", " on disk"}};
/// Memory and disk in one cell: "growing +644.00 MB, growing +16.30 MB on disk".
std::string memory_and_disk_cell(const observe::RunReport& report);

/// One row per loop and one column per epoch; each epoch has as many of the document's iterations as the
/// shortest loop's. A loop without a timed epoch has no row.
observe::Table epochs_table(const ScenarioResult& result);
/// ns of each epoch of the scenario's i-th loop, for as many iterations as those of the table.
std::vector<double> comparable_epochs(const ScenarioResult& result, size_t i);

}  // namespace isochron::apps
