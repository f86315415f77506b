#include "isochron/memory/planner/joined_problem.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace isochron::internal {
namespace {

constexpr int64_t kStepsPerRectangle = 100;  // in one pass
constexpr int64_t kStepsPerLook = 5;         // at a rectangle that may be an arm of a pinwheel
constexpr int64_t kRaise = 64;               // gaps add at most this fraction (1/kRaise) to the lower bound
constexpr int64_t kNoGap = std::numeric_limits<int64_t>::max();

}  // namespace

JoinedProblem::JoinedProblem(const PlacementProblem& original, JoinRule rule, StepBudget& budget)
    : rectangles_(original.items),
      parts_(original.items.size()),
      free_(original.items.size(), 1),
      loads_(original.sections),
      limit_(original.bound + original.bound / kRaise),
      original_items_(original.items.size()) {
  for (const PlacementItem& item : original.items) add_load(item, 1);
  join_all(rule, budget);
  joined_.sections = original.sections;
  joined_.bound = *std::max_element(loads_.begin(), loads_.end());
  for (size_t i = 0; i < rectangles_.size(); ++i) {
    if (!free_[i]) continue;
    joined_.items.push_back(rectangles_[i]);
    outermost_.push_back(static_cast<int32_t>(i));
  }
}

void JoinedProblem::join_all(JoinRule rule, StepBudget& budget) {
  const bool stacks_first = rule == JoinRule::kStacksFirst;
  const auto pass = [&] {
    return stacks_first ? stack() || chain() || pinwheels(budget) : pinwheels(budget) || chain() || stack();
  };
  for (int64_t part : {kNoGap, int64_t{256}, int64_t{64}}) {
    gap_part_ = part;
    while (budget.spend(kStepsPerRectangle * static_cast<int64_t>(rectangles_.size())) && pass()) {
    }
    if (rule != JoinRule::kWithGaps) return;
  }
}

Placement JoinedProblem::split(const Placement& placement) const {
  std::vector<int64_t> offsets(rectangles_.size());
  for (size_t i = 0; i < outermost_.size(); ++i) offsets[outermost_[i]] = placement.offsets[i];
  for (size_t i = rectangles_.size(); i-- > original_items_;) {  // a rectangle's parts come before it
    for (const Part& part : parts_[i]) offsets[part.rectangle] = offsets[i] + part.offset;
  }
  offsets.resize(original_items_);
  return {std::move(offsets), placement.height};
}

bool JoinedProblem::stack() {
  sort_free();
  const auto lifetime = [&](int32_t i) { return std::pair(rectangles_[i].upper, rectangles_[i].lower); };
  const size_t before = rectangles_.size();
  for (auto begin = by_end_.begin(); begin != by_end_.end();) {
    const auto end =
        std::find_if(begin, by_end_.end(), [&](int32_t i) { return lifetime(i) != lifetime(*begin); });
    std::vector<Part> parts;
    int64_t height = 0;
    for (auto i = begin; i != end; ++i) {
      parts.push_back({*i, height});
      height += rectangles_[*i].size;
    }
    if (parts.size() > 1) try_join(rectangles_[*begin].lower, rectangles_[*begin].upper, std::move(parts));
    begin = end;
  }
  return rectangles_.size() > before;
}

bool JoinedProblem::chain() {
  sort_free();
  const size_t before = rectangles_.size();
  for (int32_t first : by_start_) {
    const PlacementItem item = rectangles_[first];
    if (!free_[first]) continue;
    for (int32_t second : starting(item.upper, item.size, item.size / gap_part_)) {
      if (free_[second] && try_join(item.lower, rectangles_[second].upper, {{first, 0}, {second, 0}})) break;
    }
  }
  return rectangles_.size() > before;
}

bool JoinedProblem::pinwheels(StepBudget& budget) {
  sort_free();
  const size_t before = rectangles_.size();
  for (int32_t middle : by_start_) {
    if (free_[middle]) join_pinwheel(middle, budget);
  }
  return rectangles_.size() > before;
}

// The other pinwheel is this one upside down. Flipping a pinwheel doesn't affect items outside it.
//
//    +------+-----------------+
//    |      |       top       |
//    | left +--------+--------+
//    |      | middle |        |
//    +------+--------+  right |
//    |    bottom     |        |
//    +---------------+--------+
bool JoinedProblem::join_pinwheel(int32_t middle, StepBudget& budget) {
  const PlacementItem item = rectangles_[middle];
  const auto lies_free = [&](int32_t i) { return budget.spend(kStepsPerLook) && free_[i]; };
  for (int32_t left : ending(item.lower)) {
    if (!lies_free(left)) continue;
    for (int32_t top :
         starting(item.lower, rectangles_[left].size - item.size, rectangles_[left].size / gap_part_)) {
      if (!lies_free(top) || rectangles_[top].upper <= item.upper) continue;
      for (int32_t bottom : ending(item.upper)) {
        if (!lies_free(bottom) || rectangles_[bottom].lower != rectangles_[left].lower) continue;
        const int64_t base = rectangles_[bottom].size;
        for (int32_t right : starting(item.upper, base + item.size, (base + item.size) / gap_part_)) {
          if (!lies_free(right) || rectangles_[right].upper != rectangles_[top].upper) continue;
          const int64_t beam = std::max(base + item.size, rectangles_[right].size);
          if (try_join(rectangles_[left].lower, rectangles_[right].upper,
                       {{bottom, 0}, {right, 0}, {middle, base}, {left, base}, {top, beam}}))
            return true;
        }
      }
    }
  }
  return false;
}

bool JoinedProblem::try_join(int32_t lower, int32_t upper, std::vector<Part> parts) {
  PlacementItem whole{lower, upper, 0};
  for (const Part& part : parts) {
    whole.size = std::max(whole.size, part.offset + rectangles_[part.rectangle].size);
  }
  for (const Part& part : parts) add_load(rectangles_[part.rectangle], -1);
  add_load(whole, 1);
  if (*std::max_element(loads_.begin() + lower, loads_.begin() + upper) > limit_) {
    add_load(whole, -1);
    for (const Part& part : parts) add_load(rectangles_[part.rectangle], 1);
    return false;
  }
  for (const Part& part : parts) free_[part.rectangle] = 0;
  rectangles_.push_back(whole);
  parts_.push_back(std::move(parts));
  free_.push_back(1);
  return true;
}

void JoinedProblem::add_load(const PlacementItem& item, int64_t times) {
  for (int32_t s = item.lower; s < item.upper; ++s) loads_[s] += times * item.size;
}

void JoinedProblem::sort_free() {
  by_start_.clear();
  for (size_t i = 0; i < rectangles_.size(); ++i) {
    if (free_[i]) by_start_.push_back(static_cast<int32_t>(i));
  }
  by_end_ = by_start_;
  std::sort(by_start_.begin(), by_start_.end(), [&](int32_t a, int32_t b) {
    const PlacementItem &x = rectangles_[a], &y = rectangles_[b];
    return std::tuple(x.lower, x.size, x.upper, a) < std::tuple(y.lower, y.size, y.upper, b);
  });
  std::sort(by_end_.begin(), by_end_.end(), [&](int32_t a, int32_t b) {
    const PlacementItem &x = rectangles_[a], &y = rectangles_[b];
    return std::tuple(x.upper, x.lower, a) < std::tuple(y.upper, y.lower, b);
  });
}

std::span<const int32_t> JoinedProblem::starting(int32_t lower, int64_t size, int64_t gap) const {
  const auto key = [&](int32_t i) { return std::pair(rectangles_[i].lower, rectangles_[i].size); };
  const auto begin = std::ranges::lower_bound(by_start_, std::pair(lower, size - gap), {}, key);
  const auto end = std::ranges::upper_bound(by_start_, std::pair(lower, size + gap), {}, key);
  return {begin, std::max(begin, end)};
}

std::span<const int32_t> JoinedProblem::ending(int32_t upper) const {
  const auto range =
      std::ranges::equal_range(by_end_, upper, {}, [&](int32_t i) { return rectangles_[i].upper; });
  return {range.begin(), range.end()};
}

}  // namespace isochron::internal
