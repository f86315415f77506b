#include "isochron/observe/recorder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/core/error.h"
#include "isochron/core/rng.h"

namespace isochron::observe {
namespace {

void spin(int64_t ns) {
  const int64_t end = now_ns() + ns;
  while (now_ns() < end) {
  }
}

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

TEST(Windows, MediansStayRightThroughManyMerges) {
  // Skewed noise of about 30 %; 2^21 iterations merge the oldest windows 13 times.
  WindowSeries windows;
  Rng rng(3);
  constexpr int64_t kIterations = 1 << 21;
  for (int64_t i = 0; i < kIterations; ++i) {
    windows.add(i, static_cast<int64_t>(1e5 * std::exp(0.3 * rng.normal())), {});
  }
  const double sampling = 1.2533 * 0.3 / std::sqrt(static_cast<double>(windows.length()));
  for (const Window& window : windows.closed()) {
    EXPECT_NEAR(window.median_ns() / 1e5, 1, 0.003 + 5 * sampling) << window.first_iteration;
  }
  const double oldest = windows.closed().front().median_ns();
  const double newest = windows.closed().back().median_ns();
  EXPECT_NEAR(oldest / newest, 1, 0.003 + 5 * sampling);
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

TEST(Recorder, PhasesAddUpToTheIterationAndNestExclusively) {
  Recorder recorder;
  for (int i = 0; i < 50; ++i) {
    IterationScope iteration(recorder);
    {
      PhaseScope data(recorder, Phase::kDataWait);
      spin(20'000);
    }
    PhaseScope compute(recorder, Phase::kCompute);
    spin(10'000);
    {
      PhaseScope log(recorder, Phase::kLog);
      spin(40'000);
    }
  }
  const RunTotals& totals = recorder.totals();
  int64_t sum = 0;
  for (int64_t phase : totals.phase_ns) sum += phase;
  EXPECT_EQ(sum, totals.total_ns);
  EXPECT_EQ(totals.iterations, 50);
  const auto ns = [&](Phase phase) { return totals.phase_ns[static_cast<size_t>(phase)]; };
  EXPECT_GE(ns(Phase::kDataWait), 50 * 20'000);
  EXPECT_GE(ns(Phase::kCompute), 50 * 10'000);
  EXPECT_GE(ns(Phase::kLog), 50 * 40'000);
  EXPECT_EQ(ns(Phase::kCheckpoint), 0);
  EXPECT_LE(totals.min_ns, totals.max_ns);
}

TEST(Recorder, ScopesBetweenIterationsAreCountedApart) {
  Recorder recorder;
  {
    PhaseScope checkpoint(recorder, Phase::kCheckpoint);
    spin(50'000);
  }
  { IterationScope iteration(recorder); }
  EXPECT_GE(recorder.totals().between_phase_ns[static_cast<size_t>(Phase::kCheckpoint)], 50'000);
  EXPECT_EQ(recorder.totals().phase_ns[static_cast<size_t>(Phase::kCheckpoint)], 0);
}

TEST(Recorder, NamesTheOwnerOfPeriodicSpikes) {
  Recorder recorder({.reference_kernel = false});
  for (int i = 0; i < 400; ++i) {
    IterationScope iteration(recorder);
    {
      PhaseScope compute(recorder, Phase::kCompute);
      spin(20'000);
    }
    if (i % 10 != 9) continue;
    PhaseScope collect(recorder, Phase::kCallbacks, "collection");
    spin(2'000'000);
  }
  int owned = 0;
  for (const Spike& spike : recorder.recent_spikes()) {
    if (spike.iteration % 10 != 9 || spike.owner != Phase::kCallbacks)
      continue;  // the machine may add its own
    EXPECT_STREQ(spike.label, "collection");
    ++owned;
  }
  EXPECT_GE(owned, 30);
  ASSERT_EQ(recorder.largest_spikes().size(), static_cast<size_t>(Recorder::kMaxLargestSpikes));
  EXPECT_GE(recorder.largest_spikes().front().duration_ns, recorder.largest_spikes().back().duration_ns);
  EXPECT_EQ(recorder.largest_spikes().front().duration_ns, recorder.totals().max_ns);
}

TEST(Recorder, KeepsTheNewestSpikesOnly) {
  Recorder recorder({.spike_factor = 1.5, .reference_kernel = false});
  for (int i = 0; i < 4000; ++i) {
    IterationScope iteration(recorder);
    spin(i % 4 == 3 ? 12'000 : 1'000);
  }
  const std::vector<Spike> spikes = recorder.recent_spikes();
  ASSERT_EQ(spikes.size(), static_cast<size_t>(Recorder::kMaxRecentSpikes));
  EXPECT_GT(recorder.totals().spikes, Recorder::kMaxRecentSpikes);
  for (size_t i = 1; i < spikes.size(); ++i) EXPECT_LT(spikes[i - 1].iteration, spikes[i].iteration);
  EXPECT_GT(spikes.back().iteration, 3900);
}

int64_t g_allocations = 0;
int64_t fake_allocations() { return g_allocations; }

TEST(Recorder, CountsAllocationsInsideIterationsOnly) {
  Recorder recorder({.heap_allocations = fake_allocations});
  for (int i = 0; i < 100; ++i) {
    recorder.begin_iteration();
    if (i % 4 == 0) g_allocations += 3;
    recorder.end_iteration();
    g_allocations += 100;
  }
  EXPECT_EQ(recorder.totals().heap_allocations, 75);
  EXPECT_EQ(recorder.totals().allocating_iterations, 25);
}

TEST(Recorder, SamplesStayBoundedAndFollowGaugesAndCounters) {
  int64_t level = 0;
  const auto read = [](void* context) { return *static_cast<int64_t*>(context); };
  Recorder recorder(
      {.sample_interval_ns = 1, .reference_kernel = false, .gauges = {{"queue", read, &level}}});
  for (int i = 0; i < 2000; ++i) {
    { IterationScope iteration(recorder); }
    ++level;
    count(Counter::kGraphNodes, 2);
    recorder.sample();
    ASSERT_LE(recorder.samples().size(), static_cast<size_t>(Recorder::kMaxSamples));
  }
  count(Counter::kGraphNodes, -4000);
  ASSERT_GE(recorder.samples().size(), static_cast<size_t>(Recorder::kMaxSamples) / 2);
  bool found = false;
  for (const NamedSeries& series : recorder.series()) {
    ASSERT_EQ(series.values.size(), recorder.samples().size());
    if (series.name == "rss_bytes") {
      EXPECT_GT(series.values.front(), 1e5);
    }
    if (series.name != "queue") continue;
    found = true;
    EXPECT_DOUBLE_EQ(series.values.back(), 2000);
    for (size_t i = 1; i < series.values.size(); ++i) EXPECT_LE(series.values[i - 1], series.values[i]);
  }
  EXPECT_TRUE(found);
}

TEST(Recorder, ReferenceKernelIsAlignedWithWindows) {
  Recorder recorder({.sample_interval_ns = 1});
  for (int i = 0; i < 300; ++i) {
    { IterationScope iteration(recorder); }
    recorder.sample();
  }
  const std::vector<double> reference = recorder.reference_by_window(0);
  ASSERT_EQ(reference.size(), recorder.windows(0).closed().size());
  for (double ns : reference) EXPECT_GT(ns, 100);
  EXPECT_TRUE(Recorder({.reference_kernel = false}).reference_by_window(0).empty());
}

TEST(Recorder, ClassesHaveWindowsOfTheirOwn) {
  Recorder recorder({.classes = 3});
  for (int i = 0; i < 90; ++i) IterationScope iteration(recorder, i % 5 == 4 ? 7 : i % 2);
  EXPECT_EQ(recorder.classes(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(recorder.windows(2).iterations(), 18);
  EXPECT_EQ(recorder.windows(0).iterations() + recorder.windows(1).iterations(), 72);
}

TEST(Recorder, SealEndsWarmup) {
  Recorder recorder;
  for (int i = 0; i < 10; ++i) {
    IterationScope iteration(recorder);
    spin(500'000);
  }
  recorder.seal();
  for (int i = 0; i < 20; ++i) IterationScope iteration(recorder);
  EXPECT_EQ(recorder.totals().warmup_iterations, 10);
  EXPECT_GE(recorder.totals().warmup_ns, 5'000'000);
  EXPECT_EQ(recorder.totals().iterations, 20);
  EXPECT_EQ(recorder.windows(0).iterations(), 20);
  EXPECT_EQ(recorder.windows(0).closed().front().first_iteration, 0);
}

TEST(Recorder, HoldsTheSameBytesHoweverLongItRuns) {
  Recorder recorder({.classes = 2, .sample_interval_ns = 1000});
  const size_t bytes = recorder.overhead().bytes;
  for (int i = 0; i < 50'000; ++i) IterationScope iteration(recorder, i % 2);
  EXPECT_EQ(recorder.overhead().bytes, bytes);
  EXPECT_GT(bytes, size_t{500'000});
  EXPECT_LT(bytes, size_t{1'500'000});
  EXPECT_GT(recorder.overhead().per_iteration_ns, 0);
  EXPECT_GT(recorder.overhead().sampling_ns, 0);
}

TEST(Recorder, RejectsBadOptions) {
  EXPECT_THROW(Recorder({.classes = 0}), Error);
  EXPECT_THROW(Recorder({.spike_factor = 1}), Error);
  EXPECT_THROW(Recorder({.sample_interval_ns = 0}), Error);
  EXPECT_THROW(Recorder({.gauges = {{"no reader", nullptr}}}), Error);
  EXPECT_THROW(Recorder({.gauges = std::vector<Gauge>(13, Gauge{"g", [](void*) { return int64_t{0}; }})}),
               Error);
}

}  // namespace
}  // namespace isochron::observe
