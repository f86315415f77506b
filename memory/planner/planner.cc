#include "isochron/memory/planner/planner.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "isochron/core/base/checked.h"
#include "isochron/memory/planner/group_planner.h"

namespace isochron {
namespace {

using internal::PlacementItem;
using internal::PlacementProblem;
using internal::StepBudget;

constexpr int64_t kBaseSteps = 20'000'000;
constexpr int64_t kStepsPerBuffer = 15'000;
constexpr int64_t kMaxSteps = 1'200'000'000;
constexpr int64_t kEjectionStepsPerBuffer = 2'000'000;
constexpr int64_t kMaxEjectionSteps = 700'000'000;

/// A problem, and the requests that its items came from.
struct Group {
  PlacementProblem problem;
  std::vector<size_t> requests;
};

/// Validates everything that could fail later; returns the sum of the sizes.
size_t check_requests(std::span<const BufferRequest> requests, const PlannerOptions& options) {
  require(std::has_single_bit(options.alignment), ErrorCode::kInvalidArgument, "plan",
          "alignment {} is not a power of two", options.alignment);
  require(requests.size() < INT32_MAX, ErrorCode::kInvalidArgument, "plan", "{} buffers are more than 2^31",
          requests.size());
  size_t total_bytes = 0;
  size_t aligned_bytes = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const BufferRequest& request = requests[i];
    require(request.lower >= 0 && request.lower < request.upper, ErrorCode::kInvalidArgument, "plan",
            "buffer {} lives in [{}, {}); expected 0 <= lower < upper", i, request.lower, request.upper);
    total_bytes = checked_add(total_bytes, request.size_bytes, "plan");
    aligned_bytes = checked_add(aligned_bytes, align_up(request.size_bytes, options.alignment), "plan");
  }
  // Stacking everything must fit, so that no sum of sizes below can overflow.
  require(aligned_bytes <= size_t{1} << 60, ErrorCode::kOverflow, "plan",
          "the sizes add up to {} bytes, more than 2^60", aligned_bytes);
  return total_bytes;
}

/// Splits nonempty requests into groups that share no point in time, and compresses the time of each group: a
/// section begins where a buffer starts after others have ended.
std::vector<Group> make_groups(std::span<const BufferRequest> requests, size_t alignment) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].size_bytes > 0) starts.push_back(i);
  }
  std::vector<size_t> stops = starts;
  std::sort(starts.begin(), starts.end(), [&](size_t a, size_t b) {
    return std::pair(requests[a].lower, a) < std::pair(requests[b].lower, b);
  });
  std::sort(stops.begin(), stops.end(), [&](size_t a, size_t b) {
    return std::pair(requests[a].upper, a) < std::pair(requests[b].upper, b);
  });
  std::vector<int32_t> item_of(requests.size());
  std::vector<Group> groups;
  size_t stopped = 0;
  size_t live_units = 0;
  bool ended = true;
  for (size_t started = 0; started < starts.size(); ++started) {
    const size_t index = starts[started];
    for (; requests[stops[stopped]].upper <= requests[index].lower; ++stopped, ended = true) {
      PlacementItem& item = groups.back().problem.items[item_of[stops[stopped]]];
      item.upper = groups.back().problem.sections;
      live_units -= static_cast<size_t>(item.size);
    }
    if (stopped == started) groups.emplace_back();
    Group& group = groups.back();
    if (ended) ++group.problem.sections;
    ended = false;
    const size_t units = align_up(requests[index].size_bytes, alignment) / alignment;  // checked before
    live_units += units;
    item_of[index] = static_cast<int32_t>(group.problem.items.size());
    group.problem.items.push_back({group.problem.sections - 1, 0, static_cast<int64_t>(units)});
    group.problem.bound = std::max(group.problem.bound, static_cast<int64_t>(live_units));
    group.requests.push_back(index);
  }
  for (; stopped < stops.size(); ++stopped) {
    groups.back().problem.items[item_of[stops[stopped]]].upper = groups.back().problem.sections;
  }
  return groups;
}

/// Fills in the time of the peak and the bytes that alignment costs there.
void describe_peak(std::span<const BufferRequest> requests, const std::vector<Group>& groups,
                   size_t alignment, MemoryPlan& plan) {
  if (groups.empty()) return;
  const Group& group = *std::max_element(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.problem.bound < b.problem.bound;  // max_element returns the first of several equal ones
  });
  plan.lower_bound_bytes = static_cast<size_t>(group.problem.bound) * alignment;
  const int32_t peak = internal::peak_section(group.problem);
  size_t asked_bytes = 0;
  for (size_t i = 0; i < group.requests.size(); ++i) {
    const PlacementItem& item = group.problem.items[i];
    if (item.lower > peak || item.upper <= peak) continue;
    plan.peak_time = std::max(plan.peak_time, requests[group.requests[i]].lower);
    asked_bytes += requests[group.requests[i]].size_bytes;
  }
  plan.alignment_waste_bytes = plan.lower_bound_bytes - asked_bytes;
}

/// Places the groups one after the other, starting with the highest bound; the other groups need only fit
/// below the current height.
void place_groups(const std::vector<Group>& groups, const PlannerOptions& options, MemoryPlan& plan) {
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return groups[a].problem.bound > groups[b].problem.bound; });
  int64_t items_left = 0;
  for (const Group& group : groups) items_left += static_cast<int64_t>(group.requests.size());
  // The steps for ejection, and the steps for all other methods.
  int64_t steps_left = std::min(kMaxSteps, kBaseSteps + kStepsPerBuffer * items_left);
  int64_t ejection_left = std::min(kMaxEjectionSteps, kEjectionStepsPerBuffer * items_left);
  if (options.step_budget >= 0) {
    steps_left = std::min(steps_left, options.step_budget);
    ejection_left = options.step_budget - steps_left;
  }
  int64_t height = 0;
  for (size_t g : order) {
    const Group& group = groups[g];
    const auto items = static_cast<int64_t>(group.requests.size());
    const auto share_of = [&](int64_t steps) {
      return static_cast<int64_t>(static_cast<double>(steps) * static_cast<double>(items) /
                                  static_cast<double>(items_left));
    };
    StepBudget budget{share_of(steps_left)};
    StepBudget ejection_budget{share_of(ejection_left)};
    steps_left -= budget.left;
    ejection_left -= ejection_budget.left;
    internal::GroupPlan best =
        internal::plan_group(group.problem, std::max(height, group.problem.bound), budget, ejection_budget);
    steps_left += std::max<int64_t>(budget.left, 0);
    ejection_left += std::max<int64_t>(ejection_budget.left, 0);
    items_left -= items;
    if (best.placement.height > height) {
      height = best.placement.height;
      plan.method = std::move(best.method);
    }
    for (size_t i = 0; i < group.requests.size(); ++i) {
      plan.offsets[group.requests[i]] = static_cast<size_t>(best.placement.offsets[i]) * options.alignment;
    }
  }
  plan.arena_bytes = static_cast<size_t>(height) * options.alignment;
}

/// "#17 4096 bytes, #3 128 bytes, 9 more".
std::string describe_owners(std::span<const BufferRequest> requests, int64_t time) {
  constexpr size_t kShown = 5;
  const std::vector<size_t> owners = owners_at(requests, time);
  std::string text;
  for (size_t i = 0; i < owners.size() && i < kShown; ++i) {
    text += fmt::format("{}#{} {} bytes", i ? ", " : "", owners[i], requests[owners[i]].size_bytes);
  }
  return owners.size() > kShown ? text + fmt::format(", {} more", owners.size() - kShown) : text;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferRequest> requests, const PlannerOptions& options) {
  MemoryPlan plan;
  plan.total_bytes = check_requests(requests, options);
  plan.offsets.resize(requests.size());
  const std::vector<Group> groups = make_groups(requests, options.alignment);
  describe_peak(requests, groups, options.alignment, plan);
  if (plan.lower_bound_bytes <= options.capacity_bytes) place_groups(groups, options, plan);
  if (std::max(plan.lower_bound_bytes, plan.arena_bytes) > options.capacity_bytes) {
    fail(ErrorCode::kOutOfMemory, "plan",
         "the capacity is {} bytes, {}; at least {} are alive at time {}: {}; recompute, shrink the batch or "
         "raise the "
         "capacity",
         options.capacity_bytes,
         plan.arena_bytes == 0 ? "which nothing can meet"
                               : fmt::format("the smallest arena found takes {}", plan.arena_bytes),
         plan.lower_bound_bytes, plan.peak_time, describe_owners(requests, plan.peak_time));
  }
  return plan;
}

std::vector<size_t> owners_at(std::span<const BufferRequest> requests, int64_t time) {
  std::vector<size_t> owners;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].size_bytes > 0 && requests[i].lower <= time && time < requests[i].upper)
      owners.push_back(i);
  }
  std::stable_sort(owners.begin(), owners.end(),
                   [&](size_t a, size_t b) { return requests[a].size_bytes > requests[b].size_bytes; });
  return owners;
}

}  // namespace isochron
