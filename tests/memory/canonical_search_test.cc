#include "isochron/memory/planner/canonical_search.h"

#include <gtest/gtest.h>

#include "plan_instances.h"

namespace isochron {
namespace {

using internal::PlacementProblem;
using internal::SearchOutcome;
using internal::StepBudget;
using testing_support::Requests;

constexpr int32_t kTimes = 20;

Requests random_requests(Rng& rng) {
  Requests requests;
  for (int i = 0; i < 7; ++i) {
    const auto lower = static_cast<int64_t>(rng.below(12));
    requests.push_back({lower, lower + 1 + static_cast<int64_t>(rng.below(8)), 64 * (1 + rng.below(12))});
  }
  return requests;
}

PlacementProblem to_problem(const Requests& requests) {
  PlacementProblem problem;
  problem.sections = kTimes;
  for (const BufferRequest& r : requests) {
    problem.items.push_back({static_cast<int32_t>(r.lower), static_cast<int32_t>(r.upper),
                             static_cast<int64_t>(r.size_bytes / 64)});
  }
  return problem;
}

TEST(CanonicalSearch, FindsThePlacementIffThereIsOne) {
  Rng rng(11);
  const std::vector<int32_t> forwards = {0, 1, 2, 3, 4, 5, 6}, backwards = {6, 5, 4, 3, 2, 1, 0};
  for (int round = 0; round < 300; ++round) {
    const Requests requests = random_requests(rng);
    const PlacementProblem problem = to_problem(requests);
    const auto optimum = static_cast<int64_t>(testing_support::optimal_arena(requests) / 64);
    for (const std::vector<int32_t>& preference : {forwards, backwards}) {
      StepBudget budget{100'000'000};
      const auto found = internal::search_canonical(problem, preference, optimum, budget);
      ASSERT_EQ(found.outcome, SearchOutcome::kFound) << "round " << round;
      EXPECT_EQ(found.placement.height, optimum);
      MemoryPlan plan;
      for (int64_t offset : found.placement.offsets) plan.offsets.push_back(static_cast<size_t>(offset) * 64);
      plan.arena_bytes = static_cast<size_t>(optimum) * 64;
      check_plan(requests, plan);
      EXPECT_EQ(internal::search_canonical(problem, preference, optimum - 1, budget).outcome,
                SearchOutcome::kImpossible);
    }
  }
}

TEST(CanonicalSearch, StopsWhenTheStepsAreSpent) {
  const PlacementProblem problem = to_problem({{0, 4, 64}, {1, 5, 64}, {2, 6, 64}});
  StepBudget budget{10};
  EXPECT_EQ(internal::search_canonical(problem, std::vector<int32_t>{0, 1, 2}, 3, budget).outcome,
            SearchOutcome::kOutOfSteps);
}

}  // namespace
}  // namespace isochron
