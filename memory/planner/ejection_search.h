// The part of the planner for problems that greedy orders miss by far: a local search that forces items into
// an arena that is too low for the placement at hand. Internal to `memory`.
#pragma once

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

/// Lowers `best`, a complete placement of `problem`, until it is at most `target` high or `budget` is spent.
/// An item that ended above the limit goes where what it overlaps costs least, and what it overlaps goes out
/// instead; an item that had to force its way in costs more from then on (after Nagata and Braeysy, "A
/// powerful route minimization heuristic for the vehicle routing problem with time windows", Operations
/// Research Letters 2009). Deterministic: random choices come from a fixed seed.
void search_by_ejection(const PlacementProblem& problem, int64_t target, StepBudget& budget, Placement& best);

}  // namespace isochron::internal
