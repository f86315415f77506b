// Runs the loops of scenarios, each until a verdict is possible, and holds them against what they should be
// found to be.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// Runs one scenario after the other, the loops of each in turns of 0.2 s, each in a process of its own, so
/// that what the machine does from one second to the next meets them all, and all parts of each. Every loop
/// has `options.seconds`; one that runs on is beside its twin before and after
/// (observe/interleaved/ab_comparison.h), as long as the scenario's share of `options.budget_seconds` allows.
/// Then makes the tables, and calls `done`. `options.verbose` prints the document's lines per epoch and a
/// verdict for each loop. `scenarios` must outlive the result. Throws what a loop has thrown, after what the
/// loops had printed. Nothing may have been computed in parallel by this process before (see
/// observe/interleaved/worker.h).
std::vector<ScenarioResult> run_scenarios(std::span<const Scenario> scenarios, const CompareOptions& options,
                                          const std::function<void(const ScenarioResult& result)>& done);

}  // namespace isochron::apps
