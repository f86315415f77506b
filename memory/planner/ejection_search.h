// The planner's method for problems on which greedy orders perform poorly: a local search that forces items
// into an arena that is too low for the current placement. Internal to `memory`.
#pragma once

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

/// Lowers `best`, a complete placement of `problem`, until it is at most `target` high or `budget` is used
/// up. An item that ends above the limit is placed where the items that it overlaps cost least to eject, and
/// these are ejected. Each time an item is forced in, the cost of ejecting it increases (after Nagata and
/// Braeysy, "A powerful route minimization heuristic for the vehicle routing problem with time windows",
/// Operations Research Letters 2009). Deterministic: random choices come from a fixed seed.
void search_by_ejection(const PlacementProblem& problem, int64_t target, StepBudget& budget, Placement& best);

}  // namespace isochron::internal
