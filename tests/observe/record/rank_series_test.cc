#include "isochron/observe/record/rank_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isochron/observe/record/recorder.h"
#include "observe/statistics/simulated_clock.h"

namespace isochron::observe {
namespace {

TEST(RankSeries, HoldsARunOfAnyLengthInItsWindows) {
  RankSeries series(1, 3);
  const size_t bytes = series.bytes();
  constexpr int64_t kUpdates = 100'000;
  for (int64_t i = 0; i < kUpdates; ++i) {
    const RankTimes times[] = {{10, 1}, {20 + i % 2, 0}, {30 - 20 * (i % 2), 3}};
    series.add(i, times, 5);
  }
  EXPECT_EQ(series.bytes(), bytes);
  const std::vector<RankWindow> windows = series.windows();
  EXPECT_LE(windows.size(), RankSeries::kMaxWindows);
  EXPECT_GE(windows.size(), RankSeries::kMaxWindows / 2);
  int64_t updates = 0, next = 0;
  for (const RankWindow& window : windows) {
    EXPECT_EQ(window.first_iteration, next);
    next = window.last_iteration + 1;
    updates += window.updates;
    EXPECT_EQ(window.updates, windows.front().updates);
    EXPECT_EQ(window.ranks[0].work_ns, 10 * window.updates);
    EXPECT_EQ(window.ranks[2].input_ns, 3 * window.updates);
    EXPECT_EQ(window.communication_ns, 5 * window.updates);
    // 30 of rank 2, or 21 of rank 1.
    EXPECT_EQ(window.longest_ns, (30 + 21) * window.updates / 2);
  }
  EXPECT_EQ(updates, next);
  EXPECT_GT(updates, kUpdates - windows.front().updates);
}

TEST(RankSeries, TakesNothingOfOtherRanks) {
  RankSeries none;
  const RankTimes one[] = {{1, 0}};
  none.add(0, one, 0);
  EXPECT_TRUE(none.windows().empty());
  RankSeries two(0, 2);
  two.add(0, one, 0);
  EXPECT_TRUE(two.windows().empty());
}

TEST(Recorder, ATimeIsReassignedToAnotherPhase) {
  Recorder recorder({.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns});
  recorder.reassign(Phase::kCompute, Phase::kRankWait, 5);  // in no iteration: nothing to take it from
  recorder.begin_iteration();
  {
    const PhaseScope compute(recorder, Phase::kCompute);
    spend(100);
  }
  recorder.reassign(Phase::kCompute, Phase::kRankWait, 30);
  recorder.reassign(Phase::kCompute, Phase::kCommunication, 1000);  // no more than there is
  recorder.end_iteration();
  EXPECT_EQ(recorder.totals().phase_ns, (PhaseTimes{0, 0, 0, 0, 0, 0, 0, 70, 30, 0}));
}

TEST(Recorder, SealBeginsTheRanksTimesAnew) {
  Recorder recorder({.reference_kernel = false});
  recorder.join_ranks(1, 2);
  const RankTimes times[] = {{10, 1}, {20, 0}};
  recorder.add_ranks(times, 3);
  EXPECT_EQ(recorder.rank_series().windows().size(), 1u);
  recorder.seal();
  EXPECT_TRUE(recorder.rank_series().windows().empty());
  EXPECT_EQ(recorder.rank_series().own(), 1);
}

}  // namespace
}  // namespace isochron::observe
