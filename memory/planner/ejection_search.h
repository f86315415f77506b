// The part of the planner for problems that greedy orders miss by far: a local search that forces items into
// an arena that is too low for the placement at hand. Internal to `memory`.
#pragma once

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

/// Lowers `best`, a complete placement of `problem`, until it is at most `target` high or `budget` is spent.
/// An item that ended above the limit is placed where the items that it overlaps cost least; these items
/// are ejected. An item that had to be forced in costs more from then on (after Nagata and Braeysy, "A
/// powerful route minimization heuristic for the vehicle routing problem with time windows", Operations
/// Research Letters 2009). Deterministic: random choices come from a fixed seed.
void search_by_ejection(const PlacementProblem& problem, int64_t target, StepBudget& budget, Placement& best);

}  // namespace isochron::internal
