// Coarsening: items that fill a rectangle of time and memory without a gap are placed as one. Internal to
// `memory`.
#pragma once

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

/// What is joined before anything else: where that is a choice, neither is best for all problems.
enum class JoinOrder { kPinwheelsFirst, kStacksFirst };

/// A problem of fewer items, each of which stands for one or more of another problem. Joined are, again and
/// again,
///   - items of one lifetime, on top of each other;
///   - two items of one size, of which one ends where the other begins;
///   - five items in a pinwheel, the smallest rectangle that no straight line divides.
/// No section's load changes, so the lower bound stays. What is lost are the placements that keep parts of a
/// rectangle apart.
class JoinedProblem {
 public:
  /// Joins until nothing more can be joined or `budget` is spent.
  JoinedProblem(const PlacementProblem& original, JoinOrder order, StepBudget& budget);

  const PlacementProblem& problem() const { return joined_; }
  /// `placement` of the joined items as one of the original's.
  Placement split(const Placement& placement) const;

 private:
  struct Part {
    int32_t rectangle;
    int64_t offset;  // in what it is part of
  };

  bool stack();
  bool chain();
  bool pinwheels(StepBudget& budget);
  bool join_pinwheel(int32_t middle, StepBudget& budget);
  void join(int32_t lower, int32_t upper, std::vector<Part> parts);
  void sort_free();
  std::span<const int32_t> starting(int32_t lower, int64_t size) const;
  std::span<const int32_t> ending(int32_t upper) const;

  std::vector<PlacementItem> rectangles_;  // the original's items, then what was joined
  std::vector<std::vector<Part>> parts_;   // of each rectangle
  std::vector<char> free_;                 // whether a rectangle is part of no other
  std::vector<int32_t> by_start_;  // those that were free when the pass began, by (lower, size, upper)
  std::vector<int32_t> by_end_;    // the same by (upper, lower)
  size_t original_items_;
  std::vector<int32_t> outermost_;  // the rectangle of each joined item
  PlacementProblem joined_;
};

}  // namespace isochron::internal
