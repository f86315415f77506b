#include "isochron/memory/planner/planner.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/core/base/error.h"
#include "plan_instances.h"
#include "support/sanitizers.h"

namespace isochron {
namespace {

using namespace testing_support;
using testing::HasSubstr;

/// Plans and checks.
MemoryPlan checked_plan(const Requests& requests, const PlannerOptions& options = {}) {
  const MemoryPlan plan = plan_memory(requests, options);
  check_plan(requests, plan, options.alignment);
  EXPECT_GE(plan.arena_bytes, plan.lower_bound_bytes);
  return plan;
}

template <typename Call>
void expect_error(ErrorCode code, const std::string& text, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Planner, EqualsBruteForceOnTinyInstances) {
  Rng rng(7);
  int above_the_bound = 0;
  for (int round = 0; round < 20000; ++round) {
    Requests requests;
    for (int i = 0; i < 8; ++i) {
      const auto lower = static_cast<int64_t>(rng.below(12));
      requests.push_back({lower, lower + 1 + static_cast<int64_t>(rng.below(8)), 64 * (1 + rng.below(12))});
    }
    const MemoryPlan plan = checked_plan(requests);
    if (plan.arena_bytes == plan.lower_bound_bytes) continue;  // that proves it optimal
    ASSERT_EQ(plan.arena_bytes, optimal_arena(requests)) << "round " << round;
    ++above_the_bound;
  }
  EXPECT_GT(above_the_bound, 0) << "every instance was easy: the comparison shows nothing";
}

TEST(Planner, TrainingStepsReachTheBound) {
  for (int layers : {1, 3, 10, 30, 100, 300}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const MemoryPlan plan = checked_plan(training_step(layers, seed));
      EXPECT_LE(plan.ratio(), 1.001) << layers << " layers, seed " << seed;
      EXPECT_NE(plan.method, "ejection") << "which takes two seconds";
    }
  }
}

TEST(Planner, HardInstancesReachTheBoundWhenSmall) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(checked_plan(cut_rectangle(12, 50, 200, seed)).ratio(), 1.0) << seed;
    EXPECT_LE(checked_plan(cut_rectangle(30, 50, 500, seed)).ratio(), 1.02) << seed;
  }
}

/// The arena of a plan of pieces of a rectangle of `units` x 64 bytes, which all of them fit.
double part_of_capacity(const MemoryPlan& plan, int64_t units) {
  return static_cast<double>(plan.arena_bytes) / (64 * static_cast<double>(units));
}

TEST(Planner, PiecesOfARectangleFillIt) {
  for (int count : {100, 200, 500, 1000}) {
    if (kSanitizer && count > 200) continue;
    const int64_t units = 100 * count;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      for (const Requests& requests : {cut_pinwheels(count, 2 * count, units, seed),
                                       cut_pinwheels(count, 2 * count, units, seed, {.ragged = true}),
                                       cut_rectangle(count, 2 * count, units, seed),
                                       cut_rectangle(count, 2 * count, units, seed, 0.3)}) {
        const MemoryPlan plan = checked_plan(requests);
        EXPECT_LE(part_of_capacity(plan, units), 1.005) << count << " buffers, seed " << seed;
        EXPECT_NE(plan.method, "ejection") << "which takes two seconds";
      }
    }
  }
}

TEST(Planner, HardInstancesComeCloseToTheirCapacity) {
  int ejected = 0;
  const auto expect_within = [&](double most, const Requests& requests, int64_t units) {
    const MemoryPlan plan = checked_plan(requests);
    EXPECT_LE(part_of_capacity(plan, units), most) << requests.size() << " buffers, " << plan.method;
    if (plan.method.starts_with("ejection")) ++ejected;
  };
  for (int count : {100, 200, 500}) {
    if (kSanitizer && count > 200) continue;  // the release build tests how close the arenas come
    const int64_t units = 100 * count;
    expect_within(1.02, cut_rectangle(count, 2 * count, units, 1, 0.5, {.left_out = 0.05}), units);
    const int side = static_cast<int>(std::sqrt(2.5 * count));
    expect_within(1.02, tile_rectangle(side, side, 2 * count, units, 1), units);
    expect_within(1.05, cut_pinwheels(count, 2 * count, units, 1, {.left_out = 0.05}), units);
    expect_within(count < 500 ? 1.05 : 1.06, cut_pinwheels(count, 2 * count, units, 1, {.shaved = 0.01}),
                  units);
  }
  EXPECT_GT(ejected, kSanitizer ? 1 : 3) << "the other methods do: the comparison shows nothing";
}

TEST(Planner, EjectionEndsAtTheBudget) {
  const Requests requests = cut_pinwheels(200, 400, 20'000, 2, {.shaved = 0.01});
  const MemoryPlan without = checked_plan(requests, {.step_budget = 20'000'000});
  const MemoryPlan some = checked_plan(requests, {.step_budget = 60'000'000});
  const MemoryPlan all = checked_plan(requests);
  EXPECT_FALSE(without.method.starts_with("ejection")) << without.method;
  EXPECT_LT(some.arena_bytes, without.arena_bytes);
  EXPECT_LE(all.arena_bytes, some.arena_bytes);
}

TEST(Planner, SearchFindsWhatTheSkylineMisses) {
  const Requests requests = cut_rectangle(30, 50, 500, 3);
  const MemoryPlan skyline = checked_plan(requests, {.step_budget = 0});
  EXPECT_EQ(skyline.method, "skyline");
  EXPECT_GT(skyline.ratio(), 1.02);
  EXPECT_LT(checked_plan(requests).arena_bytes, skyline.arena_bytes);
}

TEST(Planner, PlansAThousandAndAHundredThousandBuffers) {
  EXPECT_LE(checked_plan(random_lifetimes(1000, 600, 20, 1)).ratio(), 1.001);
  EXPECT_LE(checked_plan(random_lifetimes(1000, 500, 300, 1)).ratio(), 1.001);
  const Requests step = training_step(28'500, 1);
  EXPECT_GT(step.size(), 100'000u);
  EXPECT_LE(checked_plan(step, {.step_budget = 100'000'000}).ratio(), 1.0001);
  for (const auto& [longest, most] : {std::pair(50, 1.001), {2000, 1.14}, {50'000, 1.001}}) {
    if (kSanitizer && longest != 2000) continue;
    const Requests random = random_lifetimes(100'000, 50'000, longest, 1);
    EXPECT_LE(checked_plan(random, {.step_budget = 100'000'000}).ratio(), most) << longest;
  }
}

TEST(Planner, IsDeterministic) {
  for (const Requests& requests :
       {training_step(100, 5), cut_rectangle(60, 100, 1000, 2), cut_pinwheels(100, 200, 10'000, 3),
        cut_pinwheels(100, 200, 10'000, 3, {.shaved = 0.01})}) {
    const MemoryPlan first = plan_memory(requests), second = plan_memory(requests);
    EXPECT_EQ(first.offsets, second.offsets);
    EXPECT_EQ(first.method, second.method);
  }
}

TEST(Planner, NestedLifetimesAreStackedExactly) {
  Requests requests;
  for (int64_t i = 0; i < 1000; ++i) requests.push_back({i, 2000 - i, static_cast<size_t>(64 + 8 * i)});
  const MemoryPlan plan = checked_plan(requests, {.step_budget = 0});
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound_bytes);
  EXPECT_EQ(plan.peak_time, 999);
}

TEST(Planner, UnconnectedGroupsShareTheArena) {
  Requests requests;
  for (int64_t i = 0; i < 50; ++i) requests.push_back({10 * i, 10 * i + 10, static_cast<size_t>(1000 + i)});
  const MemoryPlan plan = checked_plan(requests);
  EXPECT_EQ(plan.arena_bytes, 1088u);
  EXPECT_THAT(plan.offsets, testing::Each(0u));
}

TEST(Planner, ReportsBoundPeakAndWaste) {
  const Requests requests = {{0, 4, 100}, {2, 6, 50}, {3, 4, 1}, {8, 9, 128}, {3, 5, 0}};
  const MemoryPlan plan = checked_plan(requests);
  EXPECT_EQ(plan.lower_bound_bytes, 128u + 64 + 64);
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound_bytes);
  EXPECT_EQ(plan.alignment_waste_bytes, 28u + 14 + 63);
  EXPECT_EQ(plan.peak_time, 3);
  EXPECT_EQ(plan.total_bytes, 279u);
  EXPECT_EQ(owners_at(requests, plan.peak_time), (std::vector<size_t>{0, 1, 2}));
}

TEST(Planner, WhatEndsAsThePeakBeginsHasNoPartInIt) {
  const Requests requests = {{0, 6, 8}, {0, 2, 100}, {2, 6, 200}, {2, 4, 50}, {4, 5, 20}};
  const MemoryPlan plan = checked_plan(requests);
  EXPECT_EQ(plan.lower_bound_bytes, 64u + 256 + 64);
  EXPECT_EQ(plan.peak_time, 2);
  EXPECT_EQ(plan.alignment_waste_bytes, 56u + 56 + 14);
  EXPECT_EQ(owners_at(requests, plan.peak_time), (std::vector<size_t>{2, 3, 0}));
}

TEST(Planner, EmptyRequestsAreFine) {
  EXPECT_EQ(checked_plan({}).arena_bytes, 0u);
  EXPECT_EQ(checked_plan({}).ratio(), 1.0);
  const MemoryPlan plan = checked_plan({{0, 5, 0}, {1, 2, 0}});
  EXPECT_EQ(plan.arena_bytes, 0u);
  EXPECT_EQ(plan.offsets.size(), 2u);
}

TEST(Planner, HonoursTheAlignment) {
  const Requests requests = training_step(20, 1);
  for (size_t alignment : {size_t{1}, size_t{64}, size_t{256}, size_t{4096}}) {
    checked_plan(requests, {.alignment = alignment});
  }
}

TEST(Planner, RejectsImpossibleRequests) {
  expect_error(ErrorCode::kInvalidArgument, "buffer 1 lives in [3, 3)", [] {
    plan_memory(Requests{{0, 1, 8}, {3, 3, 8}});
  });
  expect_error(ErrorCode::kInvalidArgument, "buffer 0 lives in [-1, 3)", [] {
    plan_memory(Requests{{-1, 3, 8}});
  });
  expect_error(ErrorCode::kInvalidArgument, "alignment 48", [] {
    plan_memory(Requests{{0, 1, 8}}, {.alignment = 48});
  });
  expect_error(ErrorCode::kOverflow, "", [] { plan_memory(Requests{{0, 1, SIZE_MAX}}); });
  expect_error(ErrorCode::kOverflow, "", [] { plan_memory(Requests{{0, 1, SIZE_MAX - 64}, {0, 1, 64}}); });
  expect_error(ErrorCode::kOverflow, "", [] { plan_memory(Requests(100, {0, 1, size_t{1} << 57})); });
}

TEST(Planner, OverCapacityNamesTheOwnersAtThePeak) {
  const Requests requests = {{0, 4, 1000}, {2, 6, 5000}, {7, 8, 64}};
  EXPECT_EQ(checked_plan(requests, {.capacity_bytes = 6080}).arena_bytes, 6080u);  // 1024 + 5056
  expect_error(ErrorCode::kOutOfMemory, "at least 6080 are alive at time 2: #1 5000 bytes, #0 1000 bytes",
               [&] { plan_memory(requests, {.capacity_bytes = 6079}); });
}

class Checker : public testing::Test {
 protected:
  const Requests requests_ = training_step(10, 1);
  MemoryPlan plan_ = plan_memory(requests_);
  void expect_fault(const std::string& text) {
    expect_error(ErrorCode::kInvalidArgument, text, [&] { check_plan(requests_, plan_); });
  }
};

TEST_F(Checker, FindsEveryPlantedOverlap) {
  int planted = 0;
  for (size_t a = 0; a < requests_.size(); ++a) {
    for (size_t b = 0; b < requests_.size(); ++b) {
      const bool together =
          requests_[a].lower < requests_[b].upper && requests_[b].lower < requests_[a].upper;
      if (a == b || !together) continue;
      MemoryPlan bad = plan_;
      bad.offsets[a] = bad.offsets[b] + (requests_[b].size_bytes - 1) / 64 * 64;  // the last line of b
      bad.arena_bytes *= 3;
      EXPECT_THROW(check_plan(requests_, bad), Error) << a << " on " << b;
      ++planted;
    }
  }
  EXPECT_GT(planted, 100);
}

TEST_F(Checker, FindsAnOffsetOutOfLine) {
  plan_.offsets[3] += 8;
  expect_fault("buffer 3");
}

TEST_F(Checker, FindsABufferOutsideTheArena) {
  plan_.arena_bytes -= 64;
  expect_fault("leaves the arena");
}

TEST_F(Checker, FindsAMissingOffset) {
  plan_.offsets.pop_back();
  expect_fault("offsets for");
}

TEST(CheckPlan, AllowsTheSameBytesOneAfterTheOther) {
  MemoryPlan plan;
  plan.offsets = {0, 0, 0};
  plan.arena_bytes = 64;
  check_plan(Requests{{0, 2, 64}, {2, 4, 64}, {1, 3, 0}}, plan);
  EXPECT_THROW(check_plan(Requests{{0, 3, 64}, {2, 4, 64}, {1, 3, 0}}, plan), Error);
}

}  // namespace
}  // namespace isochron
