// Coarsening: items that fill a rectangle of time and memory without a gap are joined and placed as one item.
// Internal to `memory`.
#pragma once

#include "isochron/memory/planner/placement.h"

namespace isochron::internal {

/// The order in which items are joined if there is a choice. No rule is best for all problems.
enum class JoinRule {
  kPinwheelsFirst,
  kStacksFirst,
  kWithGaps,  // pinwheels first, and then items that nearly fill a rectangle
};

/// A problem with fewer items, each of which represents one or more items of another problem. These are
/// joined repeatedly:
///   - items with the same lifetime, stacked on top of each other;
///   - two items of the same size, if one ends when the other begins;
///   - five items in a pinwheel: the smallest rectangle of items that no straight line cuts in two.
/// Gaps count as load. Without gaps, the loads of the sections and therefore the lower bound don't change;
/// with gaps, the lower bound rises by at most 1/64. Joining excludes only placements in which the parts of a
/// rectangle are apart.
class JoinedProblem {
 public:
  /// Joins until nothing more can be joined or `budget` is spent.
  JoinedProblem(const PlacementProblem& original, JoinRule rule, StepBudget& budget);

  const PlacementProblem& problem() const { return joined_; }
  /// Converts a placement of the joined items to a placement of the original items.
  Placement split(const Placement& placement) const;

 private:
  struct Part {
    int32_t rectangle;
    int64_t offset;  // in the rectangle that it is part of
  };

  void join_all(JoinRule rule, StepBudget& budget);
  bool stack();
  bool chain();
  bool pinwheels(StepBudget& budget);
  bool join_pinwheel(int32_t middle, StepBudget& budget);
  bool try_join(int32_t lower, int32_t upper, std::vector<Part> parts);
  void add_load(const PlacementItem& item, int64_t times);
  void sort_free();
  std::span<const int32_t> starting(int32_t lower, int64_t size, int64_t gap) const;
  std::span<const int32_t> ending(int32_t upper) const;

  std::vector<PlacementItem> rectangles_;  // the original's items, then the joined rectangles
  std::vector<std::vector<Part>> parts_;   // of each rectangle
  std::vector<char> free_;                 // whether a rectangle is part of no other
  std::vector<int32_t> by_start_;  // rectangles that were free when the pass began, by (lower, size, upper)
  std::vector<int32_t> by_end_;    // the same rectangles by (upper, lower)
  std::vector<int64_t> loads_;     // by section
  int64_t limit_;                  // no section's load may exceed this
  int64_t gap_part_ = 0;           // a gap is at most 1/gap_part_ of the rectangle that it lies in
  size_t original_items_;
  std::vector<int32_t> outermost_;  // the rectangle of each joined item
  PlacementProblem joined_;
};

}  // namespace isochron::internal
