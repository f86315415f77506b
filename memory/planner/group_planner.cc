#include "isochron/memory/planner/group_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>

#include "isochron/memory/planner/canonical_search.h"
#include "isochron/memory/planner/ejection_search.h"
#include "isochron/memory/planner/joined_problem.h"

namespace isochron::internal {
namespace {

using Key = double (*)(const PlacementItem&);

struct NamedOrder {
  const char* name;
  Key key;  // items with the largest key come first
};

double life(const PlacementItem& item) { return item.upper - item.lower; }
double size(const PlacementItem& item) { return static_cast<double>(item.size); }
double ends_first(const PlacementItem& item) { return -item.upper; }
double starts_last(const PlacementItem& item) { return item.lower; }

constexpr std::array<NamedOrder, 6> kPortfolio = {{
    {"size", size},
    {"size x lifetime", [](const PlacementItem& item) { return size(item) * life(item); }},
    {"lifetime", life},
    {"size x lifetime^2", [](const PlacementItem& item) { return size(item) * life(item) * life(item); }},
    {"start", [](const PlacementItem& item) { return -static_cast<double>(item.lower); }},
    {"end", [](const PlacementItem& item) { return static_cast<double>(item.upper); }},
}};

/// Items by descending key. Ties are broken by the earlier start, then the larger size, then the index.
std::vector<int32_t> order_by(const PlacementProblem& problem, Key key) {
  const std::vector<PlacementItem>& items = problem.items;
  std::vector<double> keys;
  keys.reserve(items.size());
  for (const PlacementItem& item : items) keys.push_back(key(item));
  std::vector<int32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::tuple(-keys[a], items[a].lower, -items[a].size, a) <
           std::tuple(-keys[b], items[b].lower, -items[b].size, b);
  });
  return order;
}

/// Runs `work` with at most `steps` of `budget`.
template <typename Work>
auto with_share(StepBudget& budget, int64_t steps, Work&& work) {
  StepBudget share{std::min(steps, budget.left)};
  const int64_t given = share.left;
  auto result = work(share);
  budget.left -= given - share.left;
  return result;
}

/// fix() and search() stop within this fraction (1/kGoodEnough) of the target, because a further gain isn't
/// worth the time.
constexpr int64_t kGoodEnough = 1024;
/// Ejection begins if the other methods end more than this fraction (1/kHard) above the bound, and stops when
/// it gets below. Plans of training steps never are that far from the bound.
constexpr int64_t kHard = 64;
constexpr size_t kLargestSearched = 4096;  // items; with more, the budgets are used up before much is gained

class GroupPlanner {
 public:
  GroupPlanner(const PlacementProblem& problem, int64_t target, StepBudget& budget)
      : problem_(problem), target_(target), budget_(budget) {}

  const GroupPlan& best() const { return best_; }
  bool done() const { return best_.placement.height <= target_ || budget_.left <= 0; }
  void keep(Placement placement, std::string method) {
    if (placement.height < best_.placement.height) best_ = {std::move(placement), std::move(method)};
  }

  // Runs the greedy methods with at most half of the budget.
  void construct() {
    keep(place_skyline(problem_, order_by(problem_, life)), "skyline");
    if (done()) return;
    place_in_time_from(0, size, "best fit in time");
    place_in_time_from(problem_.sections - 1, size, "best fit backwards in time");
    const int32_t peak = peak_section(problem_);
    place_in_time_from(peak, ends_first, "best fit from the peak");
    place_in_time_from(peak, starts_last, "best fit from the peak");
    const int64_t all = budget_.left;
    run_portfolio(all / 4);
    target_ += target_ / kGoodEnough;
    fix(all / 4);
  }

  // Tries the target first; after each failure, tries a height half way to the best so far.
  void search() {
    int64_t limit = target_;
    while (!done() && limit < best_.placement.height) {
      search_below(limit);
      limit += std::max<int64_t>(1, (best_.placement.height - limit) / 2);
    }
  }

  int64_t ejection_goal() const { return std::max(target_ + target_ / kHard, impossible_ + 1); }
  bool misses_by_far() const { return best_.placement.height > ejection_goal(); }
  void eject(StepBudget& budget) {
    if (!misses_by_far()) return;
    Placement placement = best_.placement;
    search_by_ejection(problem_, ejection_goal(), budget, placement);
    keep(std::move(placement), "ejection");
  }

 private:
  void place_in_time_from(int32_t section, Key key, const char* method) {
    if (!done()) keep(place_in_time(problem_, section, order_by(problem_, key)), method);
  }

  void run_portfolio(int64_t steps) {
    with_share(budget_, steps, [&](StepBudget& share) {
      for (const NamedOrder& named : kPortfolio) {
        const std::vector<int32_t> order = order_by(problem_, named.key);
        for (Fit fit : {Fit::kTightest, Fit::kLowest}) {
          if (done() || share.left <= 0) return 0;
          keep(place_greedily(problem_, order, fit, best_.placement.height - 1, share),
               fmt::format("greedy by {}", named.name));
        }
      }
      return 0;
    });
  }

  // Squeaky wheel: items that ended too high move forward in the order, again and again (Joslin and Clements,
  // "Squeaky Wheel Optimization", JAIR 1999).
  void fix(int64_t steps) {
    const int64_t last = budget_.left - steps;
    for (const NamedOrder& named : kPortfolio) {
      if (done() || budget_.left <= last) return;
      with_share(budget_, (budget_.left - last) / 2,
                 [&](StepBudget& share) { return fix_order(named, share); });
    }
  }

  bool fix_order(const NamedOrder& named, StepBudget& share) {
    constexpr int kRounds = 1000;
    std::vector<int32_t> order = order_by(problem_, named.key);
    std::vector<double> rank(order.size());
    for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
    for (int round = 0; round < kRounds && !done(); ++round) {
      Placement placement =
          place_greedily(problem_, order, Fit::kTightest, std::numeric_limits<int64_t>::max(), share);
      if (placement.offsets.empty()) return false;
      for (size_t i = 0; i < rank.size(); ++i) {
        if (placement.offsets[i] + problem_.items[i].size > target_) rank[i] = rank[i] * 0.5 - 1;
      }
      keep(std::move(placement), fmt::format("greedy by {}, fixed", named.name));
      std::sort(order.begin(), order.end(),
                [&](int32_t a, int32_t b) { return std::pair(rank[a], a) < std::pair(rank[b], b); });
    }
    return true;
  }

  void search_below(int64_t limit) {
    for (const NamedOrder& named : kPortfolio) {
      if (done()) return;
      SearchResult result = with_share(budget_, budget_.left / 8 + 1, [&](StepBudget& share) {
        return search_canonical(problem_, order_by(problem_, named.key), limit, share);
      });
      if (result.outcome == SearchOutcome::kOutOfSteps) continue;
      if (result.outcome == SearchOutcome::kFound) {
        keep(std::move(result.placement), fmt::format("search by {}", named.name));
      } else {
        impossible_ = limit;
      }
      return;
    }
  }

  const PlacementProblem& problem_;
  int64_t target_;
  StepBudget& budget_;
  int64_t impossible_ = 0;  // no placement has this height or less
  GroupPlan best_;
};

/// A problem with joined rectangles, if joining is worthwhile, and the plan of these rectangles.
struct RectanglePlan {
  std::optional<JoinedProblem> joined;
  GroupPlan plan;
};

/// Tries one join rule after the other and keeps the lowest plan; uses gaps only if all others are far off.
RectanglePlan plan_rectangles(const PlacementProblem& problem, int64_t target, StepBudget& budget) {
  RectanglePlan best;
  for (JoinRule rule : {JoinRule::kPinwheelsFirst, JoinRule::kStacksFirst, JoinRule::kWithGaps}) {
    const int64_t enough = target + target / (rule == JoinRule::kWithGaps ? kHard : kGoodEnough);
    if (best.plan.placement.height <= enough) break;
    with_share(budget, budget.left / 4, [&](StepBudget& share) {
      JoinedProblem joined(problem, rule, share);
      if (4 * joined.problem().items.size() > 3 * problem.items.size()) return false;
      GroupPlanner planner(joined.problem(), std::max(target, joined.problem().bound), share);
      planner.construct();
      planner.search();
      if (planner.best().placement.height < best.plan.placement.height)
        best = {std::move(joined), planner.best()};
      return true;
    });
  }
  return best;
}

/// Runs the ejection search on rectangles, with the share of `budget` given by the ratio of rectangles to
/// items.
void eject_rectangles(RectanglePlan& rectangles, size_t items, int64_t goal, StepBudget& budget) {
  const PlacementProblem& problem = rectangles.joined->problem();
  const int64_t steps =
      budget.left / static_cast<int64_t>(items) * static_cast<int64_t>(problem.items.size());
  with_share(budget, steps, [&](StepBudget& share) {
    search_by_ejection(problem, goal, share, rectangles.plan.placement);
    return true;
  });
}

}  // namespace

GroupPlan plan_group(const PlacementProblem& problem, int64_t target, StepBudget& budget,
                     StepBudget& ejection_budget) {
  GroupPlanner planner(problem, target, budget);
  planner.construct();
  if (problem.items.size() > kLargestSearched) return planner.best();
  RectanglePlan rectangles;
  const auto keep_rectangles = [&](const std::string& method) {
    planner.keep(rectangles.joined->split(rectangles.plan.placement), method + " of rectangles");
  };
  if (!planner.done()) rectangles = plan_rectangles(problem, target, budget);
  if (rectangles.joined) keep_rectangles(rectangles.plan.method);
  planner.search();
  if (planner.misses_by_far() && rectangles.plan.placement.height == planner.best().placement.height) {
    eject_rectangles(rectangles, problem.items.size(), planner.ejection_goal(), ejection_budget);
    keep_rectangles("ejection");
  }
  planner.eject(ejection_budget);
  return planner.best();
}

}  // namespace isochron::internal
