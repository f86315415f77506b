#include "isochron/memory/planner/placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace isochron::internal {
namespace {

/// Range "raise to" and range maximum over sections. Heights only grow, so raises needn't be propagated to
/// the children.
class SkylineTree {
 public:
  explicit SkylineTree(int32_t sections) {
    while (leaves_ < sections) leaves_ *= 2;
    raised_.assign(2 * leaves_, 0);
    highest_.assign(2 * leaves_, 0);
  }
  int64_t highest(int32_t lower, int32_t upper) const { return highest(1, 0, leaves_, lower, upper); }
  void raise(int32_t lower, int32_t upper, int64_t height) { raise(1, 0, leaves_, lower, upper, height); }

 private:
  int64_t highest(size_t node, int32_t begin, int32_t end, int32_t lower, int32_t upper) const {
    if (upper <= begin || end <= lower) return 0;
    if (lower <= begin && end <= upper) return highest_[node];
    const int32_t middle = begin + (end - begin) / 2;
    return std::max(raised_[node], std::max(highest(2 * node, begin, middle, lower, upper),
                                            highest(2 * node + 1, middle, end, lower, upper)));
  }
  void raise(size_t node, int32_t begin, int32_t end, int32_t lower, int32_t upper, int64_t height) {
    if (upper <= begin || end <= lower) return;
    highest_[node] = std::max(highest_[node], height);
    if (lower <= begin && end <= upper) {
      raised_[node] = std::max(raised_[node], height);
      return;
    }
    const int32_t middle = begin + (end - begin) / 2;
    raise(2 * node, begin, middle, lower, upper, height);
    raise(2 * node + 1, middle, end, lower, upper, height);
  }

  int32_t leaves_ = 1;
  std::vector<int64_t> raised_;   // all sections of the node are at least this high
  std::vector<int64_t> highest_;  // the highest section of the node, ignoring ancestors' raises
};

/// A placed item, for the gap search.
struct Placed {
  int64_t offset;
  int64_t end;
  int32_t lower;
  int32_t upper;
};

/// Placed items by offset. Finding the items that are live together with an item walks over all items. Best
/// for small problems.
class PlacedByOffset {
 public:
  explicit PlacedByOffset(const PlacementProblem& problem) : items_(problem.items) {
    placed_.reserve(items_.size());
  }
  std::span<const Placed> overlapping(int32_t) const { return placed_; }
  void insert(int32_t index, int64_t offset) {
    const PlacementItem& item = items_[index];
    const auto position = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                           [](int64_t value, const Placed& p) { return value < p.offset; });
    placed_.insert(position, {offset, offset + item.size, item.lower, item.upper});
  }

 private:
  std::span<const PlacementItem> items_;
  std::vector<Placed> placed_;
};

/// Placed items in a tree over their start; each node has the latest end below it. The items that are live
/// together with an item are collected and sorted by offset. Best if only a small part of many items is live
/// together.
class PlacedByTime {
 public:
  explicit PlacedByTime(const PlacementProblem& problem)
      : items_(problem.items), rank_(items_.size()), by_start_(items_.size()), offsets_(items_.size()) {
    std::iota(by_start_.begin(), by_start_.end(), 0);
    std::sort(by_start_.begin(), by_start_.end(), [&](int32_t a, int32_t b) {
      return std::pair(items_[a].lower, a) < std::pair(items_[b].lower, b);
    });
    for (size_t i = 0; i < by_start_.size(); ++i) rank_[by_start_[i]] = static_cast<int32_t>(i);
    while (leaves_ < items_.size()) leaves_ *= 2;
    latest_end_.assign(2 * leaves_, -1);
  }
  std::span<const Placed> overlapping(int32_t index) {
    found_.clear();
    collect(1, 0, leaves_, items_[index]);
    std::sort(found_.begin(), found_.end(),
              [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
    return found_;
  }
  void insert(int32_t index, int64_t offset) {
    offsets_[index] = offset;
    for (size_t node = leaves_ + rank_[index]; node > 0; node /= 2) {
      latest_end_[node] = std::max(latest_end_[node], items_[index].upper);
    }
  }

 private:
  void collect(size_t node, size_t begin, size_t end, const PlacementItem& item) {
    if (latest_end_[node] <= item.lower || items_[by_start_[begin]].lower >= item.upper) return;
    if (end - begin == 1) {
      const int32_t index = by_start_[begin];
      const PlacementItem& other = items_[index];
      found_.push_back({offsets_[index], offsets_[index] + other.size, other.lower, other.upper});
      return;
    }
    const size_t middle = (begin + end) / 2;
    collect(2 * node, begin, middle, item);
    collect(2 * node + 1, middle, end, item);
  }

  std::span<const PlacementItem> items_;
  std::vector<int32_t> rank_;      // of an item by start
  std::vector<int32_t> by_start_;  // the inverse
  std::vector<int64_t> offsets_;
  size_t leaves_ = 1;
  std::vector<int32_t> latest_end_;  // -1 if nothing is placed
  std::vector<Placed> found_;
};

/// The lowest or the tightest gap for `item` among `placed`, which is sorted by offset.
int64_t find_gap(const PlacementItem& item, std::span<const Placed> placed, Fit fit) {
  int64_t top = 0;
  int64_t best_offset = -1;
  int64_t best_gap = std::numeric_limits<int64_t>::max();
  for (const Placed& other : placed) {
    if (other.lower >= item.upper || other.upper <= item.lower) continue;
    const int64_t gap = other.offset - top;
    if (gap >= item.size && gap < best_gap) {
      if (fit == Fit::kLowest) return top;
      best_gap = gap;
      best_offset = top;
    }
    top = std::max(top, other.end);
  }
  return best_offset >= 0 ? best_offset : top;
}

template <typename PlacedSet>
Placement place_with(const PlacementProblem& problem, std::span<const int32_t> order, Fit fit, int64_t limit,
                     StepBudget& budget) {
  PlacedSet placed(problem);
  Placement result{std::vector<int64_t>(problem.items.size()), 0};
  constexpr int64_t kStepsPerItem = std::is_same_v<PlacedSet, PlacedByOffset> ? 20 : 200;
  constexpr int64_t kStepsPerOverlap = std::is_same_v<PlacedSet, PlacedByOffset> ? 1 : 20;
  for (int32_t index : order) {
    const std::span<const Placed> overlapping = placed.overlapping(index);
    if (!budget.spend(kStepsPerItem + kStepsPerOverlap * static_cast<int64_t>(overlapping.size()))) return {};
    const PlacementItem& item = problem.items[index];
    const int64_t offset = find_gap(item, overlapping, fit);
    if (offset + item.size > limit) return {};
    result.offsets[index] = offset;
    result.height = std::max(result.height, offset + item.size);
    placed.insert(index, offset);
  }
  return result;
}

}  // namespace

int32_t peak_section(const PlacementProblem& problem) {
  std::vector<int64_t> load(problem.sections + 1);
  for (const PlacementItem& item : problem.items) {
    load[item.lower] += item.size;
    load[item.upper] -= item.size;
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  return static_cast<int32_t>(std::max_element(load.begin(), load.end()) - load.begin());
}

Placement place_skyline(const PlacementProblem& problem, std::span<const int32_t> order) {
  SkylineTree skyline(problem.sections);
  Placement result{std::vector<int64_t>(problem.items.size()), 0};
  for (int32_t index : order) {
    const PlacementItem& item = problem.items[index];
    result.offsets[index] = skyline.highest(item.lower, item.upper);
    skyline.raise(item.lower, item.upper, result.offsets[index] + item.size);
    result.height = std::max(result.height, result.offsets[index] + item.size);
  }
  return result;
}

namespace {

/// The free gaps below the open end of an arena, as in a simple best-fit heap.
class GapHeap {
 public:
  explicit GapHeap(int64_t end) : end_(end) {}
  int64_t allocate(int64_t size) {
    const auto tightest = by_size_.lower_bound({size, 0});
    if (tightest != by_size_.end()) {
      const auto [gap, offset] = *tightest;
      erase(offset, gap);
      if (gap > size) insert(offset + size, gap - size);
      return offset;
    }
    // The gap at the open end of the arena can grow as far as needed.
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [last, gap] = *by_offset_.rbegin();
      if (last + gap == end_) {
        erase(last, gap);
        offset = last;
      }
    }
    end_ = offset + size;
    return offset;
  }
  void free(int64_t offset, int64_t size) {
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [before_offset, before_size] = *std::prev(after);
      if (before_offset + before_size == offset) {
        erase(before_offset, before_size);
        offset = before_offset;
        size += before_size;
      }
    }
    if (const auto next = by_offset_.find(offset + size); next != by_offset_.end()) {
      const int64_t next_size = next->second;
      erase(offset + size, next_size);
      size += next_size;
    }
    insert(offset, size);
  }
  int64_t end() const { return end_; }

 private:
  void insert(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void erase(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_;
};

/// Places the items after section `from`, or before it. The items that are live in `from` lie in [0, end).
/// Returns the end of all items.
int64_t sweep(const PlacementProblem& problem, int32_t from, bool backwards, int64_t end,
              std::vector<int64_t>& offsets) {
  const auto start = [&](int32_t i) { return backwards ? -problem.items[i].upper : problem.items[i].lower; };
  const auto stop = [&](int32_t i) { return backwards ? -problem.items[i].lower : problem.items[i].upper; };
  const int32_t now = backwards ? -from - 1 : from;
  std::vector<int32_t> starts, stops;
  for (int32_t i = 0; i < static_cast<int32_t>(problem.items.size()); ++i) {
    if (start(i) > now) starts.push_back(i);
    if (stop(i) > now) stops.push_back(i);
  }
  std::sort(starts.begin(), starts.end(), [&](int32_t a, int32_t b) {
    return std::tuple(start(a), -problem.items[a].size, a) < std::tuple(start(b), -problem.items[b].size, b);
  });
  std::sort(stops.begin(), stops.end(),
            [&](int32_t a, int32_t b) { return std::pair(stop(a), a) < std::pair(stop(b), b); });
  GapHeap heap(end);
  size_t next_stop = 0;
  for (int32_t index : starts) {
    for (; stop(stops[next_stop]) <= start(index); ++next_stop) {
      heap.free(offsets[stops[next_stop]], problem.items[stops[next_stop]].size);
    }
    offsets[index] = heap.allocate(problem.items[index].size);
  }
  return heap.end();
}

}  // namespace

Placement place_in_time(const PlacementProblem& problem, int32_t from, std::span<const int32_t> order) {
  Placement result{std::vector<int64_t>(problem.items.size()), 0};
  for (int32_t index : order) {
    const PlacementItem& item = problem.items[index];
    if (from < item.lower || item.upper <= from) continue;
    result.offsets[index] = result.height;
    result.height += item.size;
  }
  const int64_t stacked = result.height;
  result.height = std::max(sweep(problem, from, false, stacked, result.offsets),
                           sweep(problem, from, true, stacked, result.offsets));
  return result;
}

Placement place_greedily(const PlacementProblem& problem, std::span<const int32_t> order, Fit fit,
                         int64_t limit, StepBudget& budget) {
  constexpr size_t kSmall = 2048;
  return problem.items.size() <= kSmall ? place_with<PlacedByOffset>(problem, order, fit, limit, budget)
                                        : place_with<PlacedByTime>(problem, order, fit, limit, budget);
}

}  // namespace isochron::internal
