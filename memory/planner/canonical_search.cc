#include "isochron/memory/planner/canonical_search.h"

#include <algorithm>

namespace isochron::internal {
namespace {

constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

class CanonicalSearch {
 public:
  CanonicalSearch(const PlacementProblem& problem, std::span<const int32_t> preference, int64_t limit,
                  StepBudget& budget)
      : preference_(preference), limit_(limit), budget_(budget), remaining_(problem.sections, 0) {
    for (int32_t index : preference) items_.push_back(problem.items[index]);
    for (const PlacementItem& item : items_) {
      for (int32_t s = item.lower; s < item.upper; ++s) remaining_[s] += item.size;
      section_steps_ += item.upper - item.lower;
    }
    unplaced_.resize(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) unplaced_[i] = static_cast<int32_t>(i);
    offsets_.assign(items_.size(), 0);
    floors_.resize(problem.sections);
  }

  SearchResult run() {
    const bool found = descend(0, -1);
    if (!found) return {out_of_steps_ ? SearchOutcome::kOutOfSteps : SearchOutcome::kImpossible, {}};
    Placement placement{std::vector<int64_t>(items_.size()), 0};
    for (size_t i = 0; i < items_.size(); ++i) {
      placement.offsets[preference_[i]] = offsets_[i];
      placement.height = std::max(placement.height, offsets_[i] + items_[i].size);
    }
    return {SearchOutcome::kFound, std::move(placement)};
  }

 private:
  // The last placed item is `last_index` at `last_offset`; the following items must not precede it in the
  // order of (offset, index).
  bool descend(int64_t last_offset, int32_t last_index) {
    if (unplaced_.empty()) return true;
    if (!budget_.spend(static_cast<int64_t>(2 * unplaced_.size()) + section_steps_ / 4 +
                       floors_.size() / 2)) {
      out_of_steps_ = true;
      return false;
    }
    if (!may_fit(last_offset, last_index)) return false;
    std::vector<int32_t> candidates = list_candidates(last_offset, last_index);
    for (int32_t index : candidates) {
      const size_t undo_mark = undo_.size();
      const bool covered = place(index);
      const bool found = descend(offsets_[index], index);
      if (found) return true;
      unplace(index, undo_mark);
      // Nothing can be placed above it any more, so no other offset or order of this item can help.
      if (out_of_steps_ || !covered) return false;
    }
    return false;
  }

  // Whether a solution is still possible: if every unplaced item lies at its floor or higher, no section may
  // need more than the limit.
  bool may_fit(int64_t last_offset, int32_t last_index) {
    std::fill(floors_.begin(), floors_.end(), kInfinite);
    int64_t smallest = kInfinite;
    for (int32_t index : unplaced_) smallest = std::min(smallest, items_[index].size);
    for (int32_t index : unplaced_) {
      const PlacementItem& item = items_[index];
      const bool in_turn = std::pair(offsets_[index], index) > std::pair(last_offset, last_index);
      // An item whose position in the order has passed can only be placed on an item that is still unplaced.
      const int64_t floor = in_turn ? offsets_[index] : last_offset + smallest;
      if (floor + item.size > limit_) return false;
      for (int32_t s = item.lower; s < item.upper; ++s) floors_[s] = std::min(floors_[s], floor);
    }
    for (size_t s = 0; s < floors_.size(); ++s) {
      if (remaining_[s] > 0 && floors_[s] + remaining_[s] > limit_) return false;
    }
    return true;
  }

  // Items that may be placed next. An item that starts where another one could end is left out, because the
  // other one fits below it.
  std::vector<int32_t> list_candidates(int64_t last_offset, int32_t last_index) const {
    int64_t lowest_end = kInfinite;
    for (int32_t index : unplaced_) lowest_end = std::min(lowest_end, offsets_[index] + items_[index].size);
    std::vector<int32_t> candidates;
    for (int32_t index : unplaced_) {
      const bool in_turn = std::pair(offsets_[index], index) > std::pair(last_offset, last_index);
      if (in_turn && offsets_[index] < lowest_end) candidates.push_back(index);
    }
    std::sort(candidates.begin(), candidates.end(),
              [&](int32_t a, int32_t b) { return std::pair(offsets_[a], a) < std::pair(offsets_[b], b); });
    return candidates;
  }

  // Fixes `index` at its offset and lifts the items that overlap it; returns whether any unplaced item does.
  bool place(int32_t index) {
    const PlacementItem& item = items_[index];
    unplaced_.erase(std::lower_bound(unplaced_.begin(), unplaced_.end(), index));
    bool covered = false;
    const int64_t end = offsets_[index] + item.size;
    for (int32_t other : unplaced_) {
      if (items_[other].lower >= item.upper || items_[other].upper <= item.lower) continue;
      covered = true;
      if (offsets_[other] >= end) continue;
      undo_.push_back({other, offsets_[other]});
      offsets_[other] = end;
    }
    for (int32_t s = item.lower; s < item.upper; ++s) remaining_[s] -= item.size;
    section_steps_ -= item.upper - item.lower;
    return covered;
  }

  void unplace(int32_t index, size_t undo_mark) {
    const PlacementItem& item = items_[index];
    for (; undo_.size() > undo_mark; undo_.pop_back()) offsets_[undo_.back().index] = undo_.back().offset;
    for (int32_t s = item.lower; s < item.upper; ++s) remaining_[s] += item.size;
    section_steps_ += item.upper - item.lower;
    unplaced_.insert(std::lower_bound(unplaced_.begin(), unplaced_.end(), index), index);
  }

  struct Undo {
    int32_t index;
    int64_t offset;
  };

  std::span<const int32_t> preference_;
  int64_t limit_;
  StepBudget& budget_;
  std::vector<PlacementItem> items_;  // in order of preference
  std::vector<int64_t> offsets_;      // offsets of placed items; for others, the lowest offset still possible
  std::vector<int32_t> unplaced_;     // ascending
  std::vector<int64_t> remaining_;    // by section: sizes yet to be placed
  std::vector<int64_t> floors_;       // by section: scratch
  std::vector<Undo> undo_;
  int64_t section_steps_ = 0;
  bool out_of_steps_ = false;
};

}  // namespace

SearchResult search_canonical(const PlacementProblem& problem, std::span<const int32_t> preference,
                              int64_t limit, StepBudget& budget) {
  return CanonicalSearch(problem, preference, limit, budget).run();
}

}  // namespace isochron::internal
