#include "isochron/memory/planner/group_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "isochron/memory/planner/canonical_search.h"
#include "isochron/memory/planner/ejection_search.h"

namespace isochron::internal {
namespace {

using Key = double (*)(const PlacementItem&);

struct NamedOrder {
  const char* name;
  Key key;  // items with the largest key come first
};

double life(const PlacementItem& item) { return item.upper - item.lower; }
double size(const PlacementItem& item) { return static_cast<double>(item.size); }

constexpr std::array<NamedOrder, 6> kPortfolio = {{
    {"size", size},
    {"size x lifetime", [](const PlacementItem& item) { return size(item) * life(item); }},
    {"lifetime", life},
    {"size x lifetime^2", [](const PlacementItem& item) { return size(item) * life(item) * life(item); }},
    {"start", [](const PlacementItem& item) { return -static_cast<double>(item.lower); }},
    {"end", [](const PlacementItem& item) { return static_cast<double>(item.upper); }},
}};

/// Items by falling key; the earlier start, then the larger size, then the index decides between equals.
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

/// Runs `work` on at most `steps` of `budget`.
template <typename Work>
auto with_share(StepBudget& budget, int64_t steps, Work&& work) {
  StepBudget share{std::min(steps, budget.left)};
  const int64_t given = share.left;
  auto result = work(share);
  budget.left -= given - share.left;
  return result;
}

/// Fixing and search stop within this fraction of the target: what is left isn't worth their time.
constexpr int64_t kGoodEnough = 1024;
/// Ejection begins where the others leave more than this fraction, and ends there: training steps never get
/// so far.
constexpr int64_t kHard = 64;
constexpr size_t kLargestSearched = 4096;  // items; beyond, the budgets are spent before much is gained

class GroupPlanner {
 public:
  GroupPlanner(const PlacementProblem& problem, int64_t target, StepBudget& budget,
               StepBudget& ejection_budget)
      : problem_(problem), target_(target), budget_(budget), ejection_budget_(ejection_budget) {}

  GroupPlan plan() {
    keep(place_skyline(problem_, order_by(problem_, life)), "skyline");
    if (done()) return std::move(best_);
    keep(place_in_time(problem_, false), "best fit in time");
    keep(place_in_time(problem_, true), "best fit backwards in time");
    const int64_t all = budget_.left;
    run_portfolio(all / 4);
    target_ += target_ / kGoodEnough;
    fix(all / 4);
    search();
    eject();
    return std::move(best_);
  }

 private:
  bool done() const { return best_.placement.height <= target_ || budget_.left <= 0; }
  void keep(Placement placement, std::string method) {
    if (placement.height < best_.placement.height) best_ = {std::move(placement), std::move(method)};
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

  // Asks for the target first; whenever that fails, for something half way to the best so far.
  void search() {
    if (problem_.items.size() > kLargestSearched) return;
    int64_t limit = target_;
    while (!done() && limit < best_.placement.height) {
      search_below(limit);
      limit += std::max<int64_t>(1, (best_.placement.height - limit) / 2);
    }
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

  void eject() {
    const int64_t goal = std::max(target_ + target_ / kHard, impossible_ + 1);
    if (best_.placement.height <= goal || problem_.items.size() > kLargestSearched) return;
    Placement placement = best_.placement;
    search_by_ejection(problem_, goal, ejection_budget_, placement);
    keep(std::move(placement), "ejection");
  }

  const PlacementProblem& problem_;
  int64_t target_;
  StepBudget& budget_;
  StepBudget& ejection_budget_;
  int64_t impossible_ = 0;  // no placement is as low as this
  GroupPlan best_;
};

}  // namespace

GroupPlan plan_group(const PlacementProblem& problem, int64_t target, StepBudget& budget,
                     StepBudget& ejection_budget) {
  return GroupPlanner(problem, target, budget, ejection_budget).plan();
}

}  // namespace isochron::internal
