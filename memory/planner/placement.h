// The planner's internal problem: one group of connected buffers, in compressed time and alignment units, and
// the constructive methods that place it. Internal to `memory`.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace isochron::internal {

/// A buffer alive in the sections [lower, upper), `size` > 0 alignment units high.
struct PlacementItem {
  int32_t lower;
  int32_t upper;
  int64_t size;
};

/// Sections are the moments with a maximal set of live items: two items overlap in time iff they share a
/// section.
struct PlacementProblem {
  std::vector<PlacementItem> items;
  int32_t sections = 0;
  int64_t bound = 0;  // largest sum of sizes in one section
};

/// The first section whose load is the bound.
int32_t peak_section(const PlacementProblem& problem);

/// The offsets of all items, and the end of the highest item.
struct Placement {
  std::vector<int64_t> offsets;
  int64_t height = std::numeric_limits<int64_t>::max();
};

/// How much work is left; methods stop cleanly when it is used up.
struct StepBudget {
  int64_t left;
  bool spend(int64_t steps) { return (left -= steps) >= 0; }
};

enum class Fit { kLowest, kTightest };

/// Places each item of `order` on top of all items placed so far that overlap it in time. O(n log n), optimal
/// for nested lifetimes.
Placement place_skyline(const PlacementProblem& problem, std::span<const int32_t> order);

/// Stacks the items alive in section `from` in the order of `order`. From there it places later items by
/// start, forwards, and earlier items by end, backwards, each in the tightest gap between the items alive at
/// that time. O(n log n).
Placement place_in_time(const PlacementProblem& problem, int32_t from, std::span<const int32_t> order);

/// Places each item of `order` in the lowest or the tightest gap that is free for its whole lifetime. Gives
/// up, with an infinite height, if an item would end above `limit` or the budget is used up.
Placement place_greedily(const PlacementProblem& problem, std::span<const int32_t> order, Fit fit,
                         int64_t limit, StepBudget& budget);

}  // namespace isochron::internal
