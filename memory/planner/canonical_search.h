// The exact side of the planner: depth-first search over canonical placements, as in MiniMalloc (Moffitt,
// ASPLOS 2023). Internal to `memory`.
#pragma once

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

enum class SearchOutcome { kFound, kImpossible, kOutOfSteps };

struct SearchResult {
  SearchOutcome outcome;
  Placement placement;  // complete for kFound only
};

/// Looks for a placement that ends at or below `limit`. Items are placed in the order of their offsets, each
/// on the floor or on another item. Among items with equal offsets, `preference` decides which one is tried
/// first.
SearchResult search_canonical(const PlacementProblem& problem, std::span<const int32_t> preference,
                              int64_t limit, StepBudget& budget);

}  // namespace isochron::internal
