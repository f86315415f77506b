#include "isochron/observe/interleaved/ab_comparison.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>

#include "observe/statistics/synthetic.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace isochron::observe {
namespace {

using testing::HasSubstr;

FlatnessVerdict alone(Flatness kind) {
  FlatnessVerdict verdict;
  verdict.kind = kind;
  verdict.bound = 0.05;
  verdict.reason = "as found alone";
  return verdict;
}

/// The verdict on a run that changed the loop by `change`; the twin is a tenth slower before and after.
FlatnessVerdict judge(double change, uint64_t seed, Flatness found_alone = Flatness::kInconclusive) {
  Rng rng(seed);
  TwinTurns turns;
  turns.before = synthetic::make_pairs(150, 60, 0, 1.1, rng);
  turns.after = synthetic::make_pairs(150, 60, change, 1.1, rng);
  return judge_ab_comparison(alone(found_alone), turns);
}

TEST(TurnTimes, AreThoseOfUsualIterations) {
  EXPECT_EQ(turn_times({}).iterations, 0);
  std::vector<double> one = {7};
  EXPECT_EQ(turn_times(one).iterations, 1);
  EXPECT_DOUBLE_EQ(turn_times(one).median_ns, 7);
  // Of four, the first is dropped, because caches fill in it; of the remaining 18, the two longest are
  // outliers.
  std::vector<double> few = {100, 1, 2, 3};
  EXPECT_EQ(turn_times(few).iterations, 3);
  EXPECT_DOUBLE_EQ(turn_times(few).median_ns, 2);
  std::vector<double> turn(20, 10);
  turn[0] = turn[1] = 1000;  // left out
  turn[7] = turn[12] = 500;  // stalls
  const TurnTimes times = turn_times(turn);
  EXPECT_EQ(times.iterations, 18);
  EXPECT_DOUBLE_EQ(times.median_ns, 10);
  EXPECT_DOUBLE_EQ(times.usual_ns, 10);
}

TEST(AbComparison, TellsChangesFromAMachineThatChangesByMore) {
  constexpr int kRuns = kSanitizer ? 40 : 200;
  const auto count = [](double change) {
    std::array<int, 4> found{};
    for (uint64_t seed = 1; seed <= kRuns; ++seed) ++found[static_cast<size_t>(judge(change, seed).kind)];
    return found;
  };
  constexpr auto kFlat = static_cast<size_t>(Flatness::kFlat),
                 kGrowing = static_cast<size_t>(Flatness::kGrowing),
                 kShrinking = static_cast<size_t>(Flatness::kShrinking);
  const auto none = count(0), twice = count(0.1), half = count(-0.5);
  EXPECT_GE(none[kFlat], 0.9 * kRuns);
  EXPECT_LE(none[kGrowing] + none[kShrinking], 0.01 * kRuns);
  EXPECT_GE(twice[kGrowing], 0.9 * kRuns);
  EXPECT_EQ(twice[kFlat], 0);
  EXPECT_EQ(half[kShrinking], kRuns);
  EXPECT_LE(count(0.05)[kFlat], 0.1 * kRuns) << "on the bound";
}

TEST(AbComparison, DecidesWhateverTheRunWasFoundToBeAlone) {
  const FlatnessVerdict flat = judge(0, 1, Flatness::kGrowing);
  EXPECT_EQ(flat.kind, Flatness::kFlat);
  EXPECT_TRUE(flat.machine_slowed);
  EXPECT_THAT(flat.reason, HasSubstr("in 150 and 150 pairs of turns; the bound is 5.0 %"));
  EXPECT_THAT(flat.reason, HasSubstr("without the twin it was growing (as found alone)"));
  ASSERT_EQ(flat.estimates.size(), 2u);
  EXPECT_EQ(flat.estimates[0].name, "medians relative to the twin");
  EXPECT_EQ(flat.iterations_to_decide, 0);
  EXPECT_FALSE(judge(0, 1, Flatness::kShrinking).machine_slowed) << "it was slow at first";
  const FlatnessVerdict growing = judge(0.3, 1, Flatness::kFlat);
  EXPECT_EQ(growing.kind, Flatness::kGrowing);
  EXPECT_FALSE(growing.machine_slowed);
  EXPECT_NEAR(growing.largest.change, 0.3, 0.05);
}

TEST(AbComparison, LeavesOpenWhatLiesOnTheBound) {
  int open = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const FlatnessVerdict inconclusive = judge(0.05, seed, Flatness::kGrowing);
    if (inconclusive.kind != Flatness::kInconclusive) continue;
    ++open;
    EXPECT_FALSE(inconclusive.machine_slowed);
    // A run that is flat by itself stays so.
    EXPECT_EQ(judge(0.05, seed, Flatness::kFlat).reason, "as found alone");
  }
  EXPECT_GE(open, 15);
}

TEST(AbComparison, HoldsTheWholeRunAgainstItsBoundWhateverAClassWasAllowed) {
  Rng rng(1);
  const TwinTurns turns{synthetic::make_pairs(150, 60, 0, 1, rng),
                        synthetic::make_pairs(150, 60, 0.12, 1, rng)};
  FlatnessVerdict of_a_class = alone(Flatness::kInconclusive);
  of_a_class.bound = 0.25;
  const FlatnessVerdict verdict = judge_ab_comparison(of_a_class, turns, 0.05);
  EXPECT_EQ(verdict.kind, Flatness::kGrowing) << verdict.reason;
  EXPECT_EQ(verdict.bound, 0.05);
}

TEST(AbComparison, SaysNothingOfTooFewPairsAndRefusesEmptyTurns) {
  Rng rng(1);
  const std::vector<TurnPair> few = synthetic::make_pairs(15, 60, 0, 1, rng);
  std::vector<TurnPair> many = synthetic::make_pairs(16, 60, 0, 1, rng);
  EXPECT_EQ(judge_ab_comparison(alone(Flatness::kGrowing), {few, many}).reason, "as found alone");
  EXPECT_EQ(turn_pairs_error(few), std::numeric_limits<double>::infinity());
  EXPECT_GT(turn_pairs_error(many), 0);
  EXPECT_LT(turn_pairs_error(synthetic::make_pairs(1000, 60, 0, 1, rng)), turn_pairs_error(many));
  many[3].twin = {};
  EXPECT_ERROR(judge_ab_comparison(alone(Flatness::kFlat), {many, many}), ErrorCode::kInvalidArgument,
               "a turn without iterations");
}

}  // namespace
}  // namespace isochron::observe
