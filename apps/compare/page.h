// The pages that `isochron compare` writes: the page of all scenarios that ran, with each loop beside its
// cured form, and each scenario's figure as a separate file.
#pragma once

#include <span>
#include <string>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// The page starts with the diagnoses (loop, symptom, start, causes and cure). Each scenario follows with its
/// loops, their time and memory over the run, their epochs, and each loop's own report. `device`: where the
/// scenarios ran.
std::string compare_page(std::span<const ScenarioResult> scenarios, Device device);

/// The scenario's figure as an SVG file; empty if no loop has a window to draw.
std::string scenario_figure(const ScenarioResult& result);

/// "Ran on the CPU; no GPU was used."
std::string device_text(Device device);

}  // namespace isochron::apps
