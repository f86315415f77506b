// What `isochron compare` writes for readers: the page of all scenarios that ran, each loop beside its cured
// form, and each scenario's figure by itself.
#pragma once

#include <span>
#include <string>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// First what is wrong with which loop, since when, why and what to do; then scenario by scenario the loops,
/// their time and memory over the run, their epochs, and each loop's own report. `device`: where they ran.
std::string compare_page(std::span<const ScenarioResult> scenarios, Device device);

/// The scenario's figure as an SVG file; empty where no loop has a window to draw.
std::string scenario_figure(const ScenarioResult& result);

/// "Ran on the CPU; no GPU was used."
std::string device_text(Device device);

}  // namespace isochron::apps
