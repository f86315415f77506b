// The planner's method for problems on which greedy orders perform poorly: a local search that forces items
// into an arena that is too low for the current placement. Internal to `memory`.
#pragma once

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

/// Lowers `best`, a complete placement of `problem`, until it is at most `target` high or `budget` is used
/// up. An item that ended above the limit is placed where ejecting the items that it overlaps costs least;
/// these items are ejected. Each time an item had to be forced in, its cost increases (after Nagata and
/// Braeysy, "A powerful route minimization heuristic for the vehicle routing problem with time windows",
/// Operations Research Letters 2009). Deterministic: random choices come from a fixed seed.
void search_by_ejection(const PlacementProblem& problem, int64_t target, StepBudget& budget, Placement& best);

}  // namespace isochron::internal
