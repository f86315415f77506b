#include "isochron/observe/statistics/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "isochron/core/base/rng.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

TEST(Histogram, QuantilesAreWithinAHalfPercent) {
  LogHistogram<uint32_t> histogram;
  for (int64_t i = 1; i <= 100'000; ++i) histogram.add(i * 37);
  for (double fraction : {0.01, 0.1, 0.5, 0.99, 0.999}) {
    EXPECT_NEAR(histogram.quantile(fraction), fraction * 3'700'000, fraction * 3'700'000 * 0.002 + 37)
        << fraction;
  }
  EXPECT_EQ(histogram.count(), 100'000);
}

TEST(Histogram, TakesTheExtremesAndForgetsOnClear) {
  LogHistogram<uint32_t> histogram;
  histogram.add(-5);
  EXPECT_LE(histogram.quantile(0.5), 1);
  histogram.add(INT64_MAX);
  EXPECT_GT(histogram.quantile(1), 8e12);
  histogram.clear();
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.quantile(0.5), 0);
  histogram.add(700);
  EXPECT_NEAR(histogram.quantile(0.5), 700, 1);
}

TEST(Histogram, AddsAnother) {
  LogHistogram<uint32_t> part;
  LogHistogram<int64_t> all;
  part.add(10);
  part.add(1'000'000);
  all.add(500);
  all.add_all(part);
  all.add_all(LogHistogram<uint32_t>());
  EXPECT_EQ(all.count(), 3);
  EXPECT_NEAR(all.quantile(0.5), 500, 1);
}

TEST(Windows, StayBoundedAndCountEveryIteration) {
  WindowSeries windows;
  for (int64_t i = 0; i < 100'000; ++i) {
    windows.add(i, 1000, {});
    ASSERT_LT(windows.closed().size(), static_cast<size_t>(WindowSeries::kMaxWindows));
  }
  EXPECT_GE(windows.closed().size(), static_cast<size_t>(WindowSeries::kMaxWindows) / 2);
  EXPECT_EQ(windows.iterations(), 100'000);
  EXPECT_EQ(windows.total_ns(), 100'000'000);
  int64_t expected = 0;
  for (const Window& window : windows.closed()) {
    EXPECT_EQ(window.first_iteration, expected);
    EXPECT_EQ(window.iterations, windows.length());
    expected = window.last_iteration + 1;
    EXPECT_NEAR(window.median_ns(), 1000, 3);
    EXPECT_DOUBLE_EQ(window.mean_ns(), 1000);
  }
}

TEST(Windows, MergedMediansStayWithinTheSamplingErrorOfExactOnes) {
  WindowSeries windows;
  Rng rng(3);
  std::vector<double> durations;
  for (int64_t i = 0; i < (1 << 18); ++i) {
    durations.push_back(std::floor(1e5 * std::exp(0.3 * rng.normal())));  // skewed noise of 30 %
    windows.add(i, static_cast<int64_t>(durations.back()), {});
  }
  const double sampling_error = 1.2533 * 0.3 / std::sqrt(static_cast<double>(windows.length()));
  for (const Window& window : windows.closed()) {
    const double exact = median(std::span<const double>(durations).subspan(
        static_cast<size_t>(window.first_iteration), static_cast<size_t>(window.iterations)));
    EXPECT_NEAR(window.median_ns() / exact, 1, sampling_error) << window.first_iteration;
  }
}

TEST(Windows, MergedOnesKeepTheLargestAndTheSumsOfTheirParts) {
  WindowSeries windows;
  std::vector<int64_t> durations;
  for (int64_t i = 0; i < 40'000; ++i) {
    durations.push_back(1000 + i * 7919 % 40'009);
    PhaseTimes phases{};
    phases[static_cast<size_t>(Phase::kCompute)] = durations.back() / 2;
    windows.add(i, durations.back(), phases);
    windows.pass();
    windows.add_waited(3);
  }
  ASSERT_GT(windows.length(), 100) << "merged several times";
  for (const Window& window : windows.closed()) {
    int64_t largest = 0, total = 0, computed = 0;
    for (int64_t i = window.first_iteration; i <= window.last_iteration; ++i) {
      const int64_t duration = durations[static_cast<size_t>(i)];
      largest = std::max(largest, duration);
      total += duration;
      computed += duration / 2;
    }
    EXPECT_EQ(window.max_ns, largest) << window.first_iteration;
    EXPECT_EQ(window.total_ns, total);
    EXPECT_EQ(window.phase_ns[static_cast<size_t>(Phase::kCompute)], computed);
    // Those behind the iteration that closes a window belong to the next.
    const int64_t around = window.iterations - (window.first_iteration == 0 ? 1 : 0);
    EXPECT_EQ(window.passed, around);
    EXPECT_EQ(window.waited_ns, 3 * around);
  }
}

/// An iteration every 100 ns, or every 300 ns while a neighbor works, as it does in the iterations for which
/// `busy` is true. The reference kernel is timed after every fourth iteration.
WindowSeries beside_a_neighbor(int64_t iterations, const std::function<bool(int64_t)>& busy,
                               const std::function<int64_t(int64_t)>& quiet_ns) {
  WindowSeries windows;
  for (int64_t i = 0; i < iterations; ++i) {
    windows.add(i, busy(i) ? 300 : quiet_ns(i), {});
    if (windows.reference_due()) windows.add_reference(busy(i) ? 20 : 10, 10, 400, 100);
  }
  return windows;
}

TEST(Windows, QuietIterationsLieBetweenUndisturbedTimings) {
  const auto busy = [](int64_t i) { return i / 12 % 3 == 1; };  // 12 of every 36
  const WindowSeries windows = beside_a_neighbor(100'000, busy, [](int64_t) { return 100; });
  int64_t iterations = 0, quiet = 0;
  for (const Window& window : windows.closed()) {
    iterations += window.iterations;
    quiet += window.quiet.iterations;
    EXPECT_GT(window.mean_ns(), 150);
    if (window.quiet.iterations == 0) continue;
    EXPECT_DOUBLE_EQ(window.quiet.mean_ns(), 100) << window.first_iteration;
    EXPECT_NEAR(window.quiet.median_ns(), 100, 0.5);
  }
  // Of the 24 quiet iterations in every 36, the first and the last three aren't known to be quiet.
  EXPECT_NEAR(static_cast<double>(quiet) / static_cast<double>(iterations), 20.0 / 36, 0.01);
}

TEST(Windows, QuietMediansOfMergedWindowsAreThoseOfAllTheirIterations) {
  Rng rng(4);
  std::vector<double> durations;
  const WindowSeries windows = beside_a_neighbor(
      1 << 16, [](int64_t i) { return i % 1000 < 300; },
      [&](int64_t) {
        durations.push_back(std::floor(1e5 * std::exp(0.3 * rng.normal())));
        return static_cast<int64_t>(durations.back());
      });
  const double sampling_error = 1.2533 * 0.3 / std::sqrt(0.7 * static_cast<double>(windows.length()));
  for (const Window& window : windows.closed()) {
    if (2 * window.quiet.iterations < window.iterations) continue;
    EXPECT_NEAR(window.quiet.median_ns() / median(durations), 1, 4 * sampling_error);
    EXPECT_TRUE(std::ranges::is_sorted(window.quiet.quantiles_ns));
  }
}

TEST(Windows, WithoutTimingsNothingIsKnownToBeQuiet) {
  WindowSeries windows;
  for (int64_t i = 0; i < 5000; ++i) windows.add(i, 100, {});
  for (const double share : window_quiet_shares(windows.closed())) EXPECT_EQ(share, 0);
  for (const double ns : window_quiet_medians(windows.closed())) EXPECT_EQ(ns, 0);
}

TEST(Windows, SplitPhases) {
  WindowSeries windows;
  for (int64_t i = 0; i < 1000; ++i) windows.add(i, 30, {10, 0, 20, 0, 0, 0, 0, 0});
  for (const Window& window : windows.closed()) {
    EXPECT_EQ(window.phase_ns[static_cast<size_t>(Phase::kDataWait)], 10 * window.iterations);
    EXPECT_EQ(window.phase_ns[static_cast<size_t>(Phase::kCompute)], 20 * window.iterations);
  }
  EXPECT_DOUBLE_EQ(windows.usual_phase_ns(Phase::kCompute), 20);
  EXPECT_NEAR(windows.usual_ns(), 30, 1);
}

TEST(Windows, WaitingIsSpreadOverTheWindowsSinceItWasReadBefore) {
  std::vector<Window> windows(6);
  for (Window& window : windows) window.iterations = 10;
  windows[2].waited_ns = 600;
  windows[3].reference.add(500, 500);  // read as well: there was none
  windows[4].passed = 10;
  windows[4].waited_ns = 400;
  EXPECT_THAT(window_waited(windows), testing::ElementsAre(20, 20, 20, 0, 20, 20));
  EXPECT_TRUE(window_waited({}).empty());
}

}  // namespace
}  // namespace isochron::observe
