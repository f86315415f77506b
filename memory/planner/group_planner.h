// The planner's strategy for one group of connected buffers: cheap constructive methods first, search last.
// Internal to `memory`.
#pragma once

#include <string>

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

struct GroupPlan {
  Placement placement;
  std::string method;
};

/// Places `problem`. Stops as soon as the placement is at most `target` high (>= problem.bound) or the
/// budgets are used up: `ejection_budget` is for ejection, `budget` for all other methods. Always returns a
/// complete placement.
GroupPlan plan_group(const PlacementProblem& problem, int64_t target, StepBudget& budget,
                     StepBudget& ejection_budget);

}  // namespace isochron::internal
