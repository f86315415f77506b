// Runs the loops of scenarios, each until a verdict is possible, and compares the findings with the
// expectations.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// Runs one scenario after the other. The loops of a scenario take turns of 0.2 s, each in its own process,
/// so that the machine's changes from one second to the next affect all of them, and all parts of each. Every
/// loop gets `options.seconds`. A loop that doesn't end by itself is compared with its twin before and after
/// its run (observe/interleaved/ab_comparison.h), as long as the scenario's share of `options.budget_seconds`
/// allows. Then makes the scenario's tables and calls `done`. With `options.verbose`, prints the document's
/// lines per epoch and a verdict for each loop. `scenarios` must outlive the result. If a loop throws, prints
/// the loops' output and rethrows. This process must not have computed anything in parallel before (see
/// observe/interleaved/worker.h).
std::vector<ScenarioResult> run_scenarios(std::span<const Scenario> scenarios, const CompareOptions& options,
                                          const std::function<void(const ScenarioResult& result)>& done);

/// Shortens `options.seconds` until the loops and tables fit into `options.budget_seconds`. Throws
/// kInvalidArgument if a loop would get less time than one turn.
void fit_budget(std::span<const Scenario> scenarios, CompareOptions& options);

}  // namespace isochron::apps
