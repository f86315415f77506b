#include "isochron/observe/diagnose/drift_alarm.h"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "observe/statistics/simulated_clock.h"
#include "support/sanitizers.h"

namespace isochron::observe {
namespace {

struct Outcome {
  int64_t raised_at = -1;  // iteration
  int64_t first_window = -1;
  int looks = 0;
};

/// Steps of 1 ms, but `growth` times as long from iteration `from` to iteration `to`.
Outcome watch(double growth, int from, int iterations, uint64_t seed, int to = INT_MAX) {
  Recorder recorder({.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns});
  DriftAlarm alarm(recorder);
  Rng rng(seed);
  Outcome outcome;
  for (int i = 0; i < iterations; ++i) {
    {
      const IterationScope iteration(recorder);
      spend(std::llround(1e6 * std::exp(0.03 * rng.normal()) * (i >= from && i < to ? growth : 1)));
    }
    if (!alarm.due()) continue;
    if (const auto report = alarm.look()) {
      EXPECT_EQ(outcome.raised_at, -1) << "it is said once";
      outcome.raised_at = i;
      outcome.first_window = report->windows.front().window.first_iteration;
      EXPECT_EQ(report->time.kind, Flatness::kGrowing);
    }
  }
  outcome.looks = alarm.looks();
  return outcome;
}

TEST(DriftAlarm, IsRaisedSoonAfterTheDriftWithTheEvidenceFromBefore) {
  const Outcome outcome = watch(1.2, 20'000, 60'000, 1);
  EXPECT_GT(outcome.raised_at, 20'000);
  EXPECT_LT(outcome.raised_at, 40'000);
  EXPECT_EQ(outcome.first_window, 0);
}

TEST(DriftAlarm, IsForWhatTwoLooksInARowFind) {
  // The first check is about 6.2 seconds after the beginning, the next at 7.7.
  EXPECT_EQ(watch(1.3, 4'900, 30'000, 1, 6'000).raised_at, -1) << "seen once";
  EXPECT_GT(watch(1.3, 4'900, 30'000, 1, 12'000).raised_at, 6'000);
}

TEST(DriftAlarm, StaysSilentOverEvenRuns) {
  constexpr uint64_t kRuns = kSanitizer ? 4 : 40;  // the release build tests the error rate
  int raised = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) raised += watch(1, 0, 20'000, seed).raised_at >= 0;
  EXPECT_LE(raised, 2);
}

TEST(DriftAlarm, LooksAreFew) {
  const Outcome outcome = watch(1, 0, 100'000, 5);
  EXPECT_GT(outcome.looks, 3);
  EXPECT_LT(outcome.looks, 25);
}

TEST(DriftAlarm, WantsToGrow) {
  const Recorder recorder({.reference_kernel = false});
  EXPECT_THROW(DriftAlarm(recorder, {.growth = 1}), Error);
}

}  // namespace
}  // namespace isochron::observe
