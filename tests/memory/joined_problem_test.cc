#include "isochron/memory/planner/joined_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "plan_instances.h"

namespace isochron {
namespace {

using internal::JoinedProblem;
using internal::JoinRule;
using internal::Placement;
using internal::PlacementItem;
using internal::PlacementProblem;
using internal::StepBudget;
using testing_support::Requests;

constexpr int64_t kPlenty = 1'000'000'000;

std::vector<int64_t> loads(const PlacementProblem& problem) {
  std::vector<int64_t> loads(problem.sections);
  for (const PlacementItem& item : problem.items) {
    for (int32_t s = item.lower; s < item.upper; ++s) loads[s] += item.size;
  }
  return loads;
}

int64_t bound_of(const PlacementProblem& problem) {
  const std::vector<int64_t> all = loads(problem);
  return *std::max_element(all.begin(), all.end());
}

PlacementProblem problem_of(const Requests& requests, int32_t sections) {
  PlacementProblem problem;
  problem.sections = sections;
  for (const BufferRequest& r : requests) {
    problem.items.push_back({static_cast<int32_t>(r.lower), static_cast<int32_t>(r.upper),
                             static_cast<int64_t>((r.size_bytes + 63) / 64)});
  }
  problem.bound = bound_of(problem);
  return problem;
}

/// Stacks the joined items and checks the plan that this is of the original's.
void expect_sound(const Requests& requests, const JoinedProblem& joined) {
  std::vector<int32_t> order(joined.problem().items.size());
  std::iota(order.begin(), order.end(), 0);
  const Placement placement = joined.split(place_skyline(joined.problem(), order));
  MemoryPlan plan;
  plan.arena_bytes = static_cast<size_t>(placement.height) * 64;
  for (int64_t offset : placement.offsets) plan.offsets.push_back(static_cast<size_t>(offset) * 64);
  check_plan(requests, plan);
}

TEST(JoinedProblem, APinwheelIsOneItem) {
  //  time 0 1 2 3
  const Requests requests = {{0, 2, 64}, {2, 3, 128}, {1, 3, 128}, {0, 1, 192}, {1, 2, 64}};
  const PlacementProblem problem = problem_of(requests, 3);
  StepBudget budget{kPlenty};
  const JoinedProblem joined(problem, JoinRule::kPinwheelsFirst, budget);
  ASSERT_EQ(joined.problem().items.size(), 1u);
  EXPECT_EQ(joined.problem().items[0].size, 4);
  expect_sound(requests, joined);
}

TEST(JoinedProblem, WhatDoesNotFillARectangleStaysApart) {
  const Requests requests = {{0, 2, 64}, {2, 3, 128}, {1, 3, 128}, {0, 1, 192}, {1, 2, 256}};
  StepBudget budget{kPlenty};
  const JoinedProblem joined(problem_of(requests, 3), JoinRule::kPinwheelsFirst, budget);
  EXPECT_EQ(joined.problem().items.size(), requests.size());
}

TEST(JoinedProblem, GapsAddToTheLoadOnlySoMuch) {
  const Requests requests = {{0, 2, 64 * 200}, {1, 2, 64 * 4033}, {2, 3, 64 * 4096}, {3, 4, 64 * 4160}};
  StepBudget budget{kPlenty};
  const JoinedProblem joined(problem_of(requests, 4), JoinRule::kWithGaps, budget);
  EXPECT_EQ(joined.problem().items.size(), 3u);  // with the last one too, 127 / 4233 were lost
  EXPECT_EQ(joined.problem().bound, 4296);
  expect_sound(requests, joined);
}

TEST(JoinedProblem, NestedPinwheelsAreOneItem) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Requests requests = testing_support::cut_pinwheels(101, 4000, 100'000, seed);
    const PlacementProblem problem = problem_of(requests, 4000);
    StepBudget budget{kPlenty};
    const JoinedProblem joined(problem, JoinRule::kPinwheelsFirst, budget);
    EXPECT_EQ(joined.problem().items.size(), 1u) << seed;
    expect_sound(requests, joined);
  }
}

TEST(JoinedProblem, StopsWhenTheStepsAreSpent) {
  const Requests requests = testing_support::cut_pinwheels(501, 4000, 100'000, 1);
  const PlacementProblem problem = problem_of(requests, 4000);
  StepBudget budget{100'000};
  const JoinedProblem joined(problem, JoinRule::kPinwheelsFirst, budget);
  EXPECT_GT(joined.problem().items.size(), 1u);
  EXPECT_LT(joined.problem().items.size(), requests.size());
  EXPECT_LT(budget.left, 0);
  expect_sound(requests, joined);
}

TEST(JoinedProblem, LoadsAndPlansAreKept) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    Requests requests;  // of few moments and sizes, so that much is joined
    for (int i = 0; i < 200; ++i) {
      const auto lower = static_cast<int64_t>(rng.below(20));
      requests.push_back({lower, lower + 1 + static_cast<int64_t>(rng.below(8)), 64 * (1 + rng.below(6))});
    }
    const PlacementProblem problem = problem_of(requests, 28);
    for (JoinRule rule : {JoinRule::kPinwheelsFirst, JoinRule::kStacksFirst, JoinRule::kWithGaps}) {
      StepBudget budget{kPlenty};
      const JoinedProblem joined(problem, rule, budget);
      EXPECT_LT(joined.problem().items.size(), 150u);
      expect_sound(requests, joined);
      EXPECT_EQ(joined.problem().bound, bound_of(joined.problem()));
      if (rule == JoinRule::kWithGaps) {
        EXPECT_LE(joined.problem().bound, problem.bound + problem.bound / 64);
      } else {
        EXPECT_EQ(loads(joined.problem()), loads(problem));
      }
    }
  }
}

TEST(JoinedProblem, ShavedPinwheelsAreJoinedWithGaps) {
  const Requests requests = testing_support::cut_pinwheels(201, 4000, 100'000, 1, {.shaved = 0.01});
  const PlacementProblem problem = problem_of(requests, 4000);
  StepBudget budget{kPlenty};
  const JoinedProblem without(problem, JoinRule::kPinwheelsFirst, budget);
  const JoinedProblem with(problem, JoinRule::kWithGaps, budget);
  EXPECT_GT(without.problem().items.size(), requests.size() / 2);
  EXPECT_LT(with.problem().items.size(), requests.size() / 2);
  EXPECT_GT(with.problem().bound, problem.bound);
  EXPECT_LE(with.problem().bound, problem.bound + problem.bound / 64);
  expect_sound(requests, with);
}

}  // namespace
}  // namespace isochron
