#include "isochron/observe/record/recorder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/page.h"
#include "isochron/observe/export/run_record.h"
#include "observe/statistics/simulated_clock.h"

namespace isochron::observe {
namespace {

RecorderOptions simulated() {
  return {.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns};
}

TEST(Recorder, PhasesAddUpToTheIterationAndNestExclusively) {
  Recorder recorder(simulated());
  for (int i = 0; i < 50; ++i) {
    IterationScope iteration(recorder);
    spend(1);
    {
      PhaseScope data(recorder, Phase::kDataWait);
      spend(20);
    }
    PhaseScope compute(recorder, Phase::kCompute);
    spend(10);
    {
      PhaseScope log(recorder, Phase::kLog);
      spend(40);
    }
    spend(5 + i);
  }
  const RunTotals& totals = recorder.totals();
  EXPECT_EQ(totals.phase_ns, (PhaseTimes{50 * 20, 0, 50 * 15 + 1225, 0, 0, 0, 50 * 40, 0, 0, 50}));
  EXPECT_EQ(totals.total_ns, 50 * 76 + 1225);
  EXPECT_EQ(totals.elapsed_ns, totals.total_ns);
  EXPECT_EQ(totals.min_ns, 76);
  EXPECT_EQ(totals.max_ns, 76 + 49);
}

TEST(Recorder, TimeBetweenIterationsIsCountedApart) {
  Recorder recorder(simulated());
  for (int i = 0; i < 2; ++i) {
    spend(3);
    {
      PhaseScope checkpoint(recorder, Phase::kCheckpoint);
      spend(50);
    }
    spend(4);
    IterationScope iteration(recorder);
    spend(10);
  }
  EXPECT_EQ(recorder.totals().between_phase_ns, (PhaseTimes{0, 0, 0, 0, 0, 100, 0, 0, 0, 14}));
  EXPECT_EQ(recorder.totals().phase_ns, (PhaseTimes{0, 0, 0, 0, 0, 0, 0, 0, 0, 20}));
  EXPECT_EQ(recorder.totals().elapsed_ns, 10 + 57 + 10);
}

void record(Recorder& recorder, int iterations, int64_t first_ns, int64_t growth_ns) {
  for (int i = 0; i < iterations; ++i) {
    const IterationScope iteration(recorder, i % 10 == 9 ? 1 : 0);
    const PhaseScope compute(recorder, Phase::kCompute);
    spend(first_ns + i * growth_ns);
  }
}

TEST(Recorder, GoesOnFromTheBaselineOfAnEarlierProcess) {
  constexpr int kIterations = 3000;
  Recorder whole(simulated()), before(simulated()), after(simulated());
  record(whole, kIterations, 20'000, 4);
  record(whole, kIterations, 20'000 + 4 * kIterations, 4);
  record(before, kIterations, 20'000, 4);
  record(after, 7, 90'000, 0);  // its warm-up
  after.seal_and_continue(before.baseline());
  EXPECT_EQ(after.baseline(), before.baseline()) << "nothing is lost when it is handed on again";
  record(after, kIterations, 20'000 + 4 * kIterations, 4);
  EXPECT_EQ(after.totals().iterations, 2 * kIterations);
  EXPECT_EQ(after.totals().total_ns, whole.totals().total_ns);
  EXPECT_EQ(after.totals().phase_ns, whole.totals().phase_ns);
  EXPECT_EQ(after.totals().warmup_iterations, 7);
  EXPECT_EQ(after.totals().min_ns, 20'000);
  EXPECT_EQ(after.classes(), whole.classes());
  const std::vector<double> medians = window_medians(after.windows(0).closed());
  EXPECT_LT(medians.front(), 21'000) << "the windows begin with those before the restart";
  EXPECT_GT(medians.back(), 43'000);
  EXPECT_TRUE(std::is_sorted(medians.begin(), medians.end()));
  EXPECT_NEAR(after.duration_quantile(0.5), whole.duration_quantile(0.5), 300);
}

TEST(Recorder, ARestartHidesNoSpikesAndNothingBetweenIterations) {
  const auto run = [](Recorder& recorder, int iterations) {
    for (int i = 0; i < iterations; ++i) {
      {
        const IterationScope iteration(recorder);
        const PhaseScope phase(recorder, i % 10 == 9 ? Phase::kCallbacks : Phase::kCompute);
        spend(i % 10 == 9 ? 500'000 : 20'000);
      }
      const PhaseScope checkpoint(recorder, Phase::kCheckpoint);
      spend(1'000);
    }
  };
  Recorder before(simulated()), after(simulated());
  run(before, 1000);
  after.seal_and_continue(before.baseline());
  run(after, 100);
  const RunReport whole = make_report(before, "before"), resumed = make_report(after, "resumed");
  const auto checkpoint = static_cast<size_t>(Phase::kCheckpoint);
  EXPECT_NEAR(resumed.between_phase_ns[checkpoint], whole.between_phase_ns[checkpoint], 2);
  EXPECT_NEAR(resumed.spikes.time_share, whole.spikes.time_share, 0.02);
  EXPECT_GE(resumed.spikes.count, whole.spikes.count);
  EXPECT_GT(after.totals().spikes_by_owner[static_cast<size_t>(Phase::kCallbacks)], 105);
}

TEST(Recorder, AResumedRunWithoutSpikesOfItsOwnCanBeReportedAgain) {
  Recorder before(simulated()), after(simulated());
  const auto run = [](Recorder& recorder, int64_t slow_ns) {
    for (int i = 0; i < 200; ++i) {
      const IterationScope iteration(recorder);
      const PhaseScope phase(recorder, i % 10 == 9 ? Phase::kCheckpoint : Phase::kCompute);
      spend(i % 10 == 9 ? slow_ns : 20'000);
    }
  };
  run(before, 500'000);
  after.seal_and_continue(before.baseline());
  run(after, 20'000);
  const RunRecord record{.title = "resumed", .parts = {{.run = run_data(after, "resumed")}}};
  const RunReport here = make_report(*record.parts[0].run),
                  again = make_report(*parse_run_record(to_json(record), "run.json").parts[0].run);
  for (const RunReport& report : {here, again}) {
    EXPECT_GE(report.spikes.count, 19);
    EXPECT_TRUE(report.spikes.largest.empty());
    EXPECT_EQ(report.spikes.owner, Phase::kCheckpoint);
    EXPECT_FALSE(run_section(report).empty());
  }
  EXPECT_EQ(to_json(here), to_json(again));
}

TEST(Recorder, CountsOfAResumedRunAreOfItsOwnIterations) {
  constexpr int kIterations = 3000;
  const auto run = [](Recorder& recorder) {
    for (int i = 0; i < kIterations; ++i) {
      const IterationScope iteration(recorder);
      spend(1'000'000);
      count(Counter::kSentBytes, 500);
    }
  };
  Recorder before(simulated()), after(simulated());
  run(before);
  after.seal_and_continue(before.baseline());
  run(after);
  const RunReport report = make_report(after, "resumed");
  EXPECT_NEAR(report.find_series("sent_bytes")->per_iteration, 500, 1);
  EXPECT_THAT(report.causes, testing::IsEmpty());
}

TEST(Recorder, RefusesWhatIsNoBaselineAndStaysAsItIs) {
  Recorder recorder(simulated()),
      other({.classes = 2, .reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns});
  record(recorder, 100, 1000, 1);
  const std::string good = recorder.baseline();
  const auto refused = [&](const std::string& bytes, const char* text) {
    try {
      recorder.seal_and_continue(bytes);
      ADD_FAILURE() << "expected an error: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadFormat);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    EXPECT_EQ(recorder.baseline(), good);
  };
  for (size_t size = 0; size < good.size(); size += 7) refused(good.substr(0, size), "truncated");
  refused(good + "x", "unexpected bytes follow it");
  refused(other.baseline(), "another number of step classes");
  std::string changed = good;
  changed[0] = 'X';
  refused(changed, "another version");
  // A window's first number is the iteration that it begins with; little endian.
  const size_t totals = 3 * sizeof(int64_t), windows = totals + sizeof(RunTotals) + 2 * sizeof(int64_t);
  changed = good;
  changed[windows + 7] = static_cast<char>(0x80);
  refused(changed, "impossible numbers");
  changed = good;
  changed[totals + 7] = static_cast<char>(0x80);
  refused(changed, "impossible totals");
}

int64_t g_made = 0;

TEST(Recorder, CountsAllocationsOfCallbacksAndSavesApart) {
  RecorderOptions options = simulated();
  options.heap_allocations = [] { return g_made; };
  Recorder recorder(options);
  for (int i = 0; i < 10; ++i) {
    const IterationScope iteration(recorder);
    g_made += 1;
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      g_made += 2;
      const PhaseScope log(recorder, Phase::kLog);
      g_made += 10;
    }
    const PhaseScope checkpoint(recorder, Phase::kCheckpoint);
    g_made += 100;
  }
  EXPECT_EQ(recorder.totals().heap_allocations, 10 * 3);
  EXPECT_EQ(recorder.totals().heap_allocations_beside, 10 * 110);
  EXPECT_EQ(recorder.totals().allocating_iterations, 10);
}

TEST(Recorder, NamesTheOwnerOfPeriodicSpikes) {
  Recorder recorder(simulated());
  for (int i = 0; i < 400; ++i) {
    IterationScope iteration(recorder);
    {
      PhaseScope compute(recorder, Phase::kCompute);
      spend(20'000 + i % 7);
    }
    if (i % 10 != 9) continue;
    PhaseScope collect(recorder, Phase::kCallbacks, "collection");
    spend(50'000 + i);
  }
  const std::vector<Spike> spikes = recorder.recent_spikes();
  ASSERT_EQ(spikes.size(), 40U);  // the first eight iterations only teach what is usual
  for (size_t i = 0; i < spikes.size(); ++i) {
    EXPECT_EQ(spikes[i].iteration, static_cast<int64_t>(10 * i + 9));
    EXPECT_EQ(spikes[i].owner, Phase::kCallbacks);
    EXPECT_STREQ(spikes[i].label, "collection");
  }
  EXPECT_EQ(recorder.totals().spikes_by_owner[static_cast<size_t>(Phase::kCallbacks)], 40);
  const std::vector<Spike>& largest = recorder.largest_spikes();
  ASSERT_EQ(largest.size(), static_cast<size_t>(Recorder::kMaxLargestSpikes));
  EXPECT_EQ(largest.front().duration_ns, recorder.totals().max_ns);
  for (size_t i = 1; i < largest.size(); ++i) EXPECT_GE(largest[i - 1].duration_ns, largest[i].duration_ns);
}

TEST(Recorder, KeepsTheNewestSpikesOnly) {
  Recorder recorder(simulated());
  for (int i = 0; i < 4000; ++i) {
    IterationScope iteration(recorder);
    spend(i % 4 == 3 ? 12'000 : 1'000);
  }
  const std::vector<Spike> spikes = recorder.recent_spikes();
  ASSERT_EQ(spikes.size(), static_cast<size_t>(Recorder::kMaxRecentSpikes));
  EXPECT_GT(recorder.totals().spikes, Recorder::kMaxRecentSpikes);
  for (size_t i = 1; i < spikes.size(); ++i) EXPECT_EQ(spikes[i].iteration, spikes[i - 1].iteration + 4);
  EXPECT_EQ(spikes.back().iteration, 3999);
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

TEST(Recorder, ReferenceKernelIsTimedAlongWithTheWindows) {
  Recorder recorder({.timing_share = 0, .reference_share = 0.01});
  const WindowSeries& windows = recorder.windows(0);
  const auto timings = [&] {
    int64_t count = 0;
    for (const Window& window : windows.closed()) count += window.reference.count;
    return count;
  };
  // If the machine interrupts one timing for 20 ms, the next one is delayed by 100 times that.
  int64_t iterations = 0;
  while (iterations < 3000 || (timings() < 3 && iterations < 5'000'000)) {
    for (int i = 0; i < 1000; ++i, ++iterations) {
      IterationScope iteration(recorder);
      for (int64_t end = now_ns() + 2000; now_ns() < end;) {
      }
    }
  }
  ASSERT_EQ(window_reference_typical(windows.closed()).size(), windows.closed().size());
  ASSERT_EQ(window_reference_means(windows.closed()).size(), windows.closed().size());
  for (double ns : window_reference_typical(windows.closed())) EXPECT_GT(ns, 100);
  EXPECT_GT(timings(), 2);
  EXPECT_LT(timings(), iterations / 3) << "not after each iteration";
  EXPECT_TRUE(window_reference_typical(Recorder({.reference_kernel = false}).windows(0).closed()).empty());
}

TEST(Recorder, ReferenceKernelRunsWhereTheProgramRuns) {
  const int before = compute_threads();
  set_compute_threads(2);
  Recorder recorder;
  for (int i = 0; i < 10; ++i) IterationScope iteration(recorder);
  EXPECT_EQ(recorder.reference_threads(), 1);
  recorder.seal();
  for (int i = 0; i < 10; ++i) {
    IterationScope iteration(recorder);
    each_thread(compute_threads(), [](int64_t) {});
  }
  EXPECT_LE(recorder.reference_threads(), compute_threads());  // alone where the team doesn't come together
  for (const double ns : window_reference_typical(recorder.windows(0).closed()))
    EXPECT_TRUE(std::isfinite(ns));
  recorder.seal();
  for (int i = 0; i < 10; ++i) IterationScope iteration(recorder);
  EXPECT_EQ(recorder.reference_threads(), 1) << "seal() looks anew";
  set_compute_threads(before);
}

/// A machine of which everything is known.
class PlayedSensors final : public SensorSource {
 public:
  void read(SensorReading& reading) override {
    reading.rss_bytes = 1000 + 10 * reads_++;
    reading.pinned_bytes = 7;
  }
  void read_slow(SensorReading& reading) override {
    ++slow_reads_;
    reading.heap_bytes = 5;
    reading.stolen_ns = 3;
  }
  int64_t waited_ns() override { return waited_; }
  void watch_team(bool) override {}
  std::optional<double> reference_ns() override { return 1234; }
  int64_t waited_ = 0;
  int64_t reads_ = 0, slow_reads_ = 0;
};

TEST(Recorder, ReadsTheMachineThatItIsGiven) {
  PlayedSensors sensors;
  Recorder recorder({.clock = simulated_now_ns, .sensors = &sensors});
  for (int i = 0; i < 300; ++i) {
    const IterationScope iteration(recorder);
    spend(1'000'000);
  }
  recorder.sample();
  EXPECT_GT(sensors.slow_reads_, 0);
  EXPECT_EQ(sensors.reads_, static_cast<int64_t>(recorder.samples().size()));
  const SensorReading& last = recorder.samples().back().sensors;
  EXPECT_EQ(last.rss_bytes, 1000 + 10 * (sensors.reads_ - 1));
  EXPECT_EQ(last.heap_bytes, 5);
  EXPECT_EQ(last.stolen_ns, 3);
  std::vector<std::string> names;
  for (const NamedSeries& series : recorder.series()) names.push_back(series.name);
  EXPECT_EQ(std::ranges::count(names, "pinned_bytes"), 1);
  EXPECT_EQ(std::ranges::count(names, "swap_bytes"), 0) << "what nobody tells is no series";
  for (const Window& window : recorder.windows(0).closed()) {
    if (window.reference.count > 0) {
      EXPECT_DOUBLE_EQ(window.reference.mean_ns(), 1234);
    }
  }
}

TEST(Recorder, WaitsAreAtMostTheTime) {
  PlayedSensors sensors;
  Recorder recorder({.clock = simulated_now_ns, .sensors = &sensors});
  for (int i = 0; i < 512; ++i) {
    const IterationScope iteration(recorder);
    spend(1'000'000);
    sensors.waited_ += i < 256 ? 300'000 : 4'000'000;  // four threads at once
  }
  double first = 0, second = 0;
  for (const Window& window : recorder.windows(0).closed())
    (window.last_iteration < 256 ? first : second) += static_cast<double>(window.waited_ns);
  EXPECT_NEAR(first / 256e6, 0.3, 0.02);
  EXPECT_NEAR(second / 256e6, 1, 0.02);
}

TEST(Recorder, LooksAtIterationsAfterSamples) {
  RecorderOptions options = simulated();
  options.sample_interval_ns = 1;
  Recorder recorder(options);
  for (int i = 0; i < 100; ++i) {
    const IterationScope iteration(recorder);
    spend(1000);
    const PhaseScope fetch(recorder, Phase::kDataWait);
    count(Counter::kBytesInUse, 300);
    count_own_bytes(100);
  }
  count(Counter::kBytesInUse, -300 * 100);
  count_own_bytes(-100 * 100);
  const InspectedIterations& inspected = recorder.inspected();
  EXPECT_GE(inspected.iterations, 99);
  EXPECT_EQ(inspected.gained_bytes[static_cast<size_t>(Phase::kDataWait)], 100 * inspected.iterations);
  EXPECT_EQ(inspected.gained_elsewhere_bytes, 200 * inspected.iterations);
}

TEST(Recorder, RemembersWhereTracingBegan) {
  Recorder recorder(simulated());
  for (int i = 0; i < 2000; ++i) {
    const IterationScope iteration(recorder);
    spend(1000);
    if (i % 50 == 7 || i % 50 == 8) count(Counter::kTraces, 1);
  }
  const std::vector<int64_t> tracings = recorder.tracings();
  ASSERT_EQ(tracings.size(), 40U);
  for (size_t i = 0; i < tracings.size(); ++i) EXPECT_EQ(tracings[i], static_cast<int64_t>(50 * i + 7));
}

TEST(Recorder, ClassesHaveWindowsOfTheirOwn) {
  Recorder recorder({.classes = 3, .timing_share = 0});
  for (int i = 0; i < 90; ++i) IterationScope iteration(recorder, i % 5 == 4 ? 7 : i % 2);
  EXPECT_EQ(recorder.classes(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(recorder.windows(2).iterations(), 18);
  EXPECT_EQ(recorder.windows(0).iterations() + recorder.windows(1).iterations(), 72);
}

TEST(Recorder, SealEndsWarmup) {
  Recorder recorder(simulated());
  const auto iterate = [&](int count, int64_t ns) {
    for (int i = 0; i < count; ++i) {
      IterationScope iteration(recorder);
      spend(ns);
    }
  };
  iterate(10, 500);
  recorder.seal();
  iterate(20, 100);
  EXPECT_EQ(recorder.totals().warmup_iterations, 10);
  EXPECT_EQ(recorder.totals().warmup_ns, 5000);
  EXPECT_EQ(recorder.totals().iterations, 20);
  EXPECT_EQ(recorder.totals().max_ns, 100);
  EXPECT_EQ(recorder.windows(0).iterations(), 20);
  EXPECT_NEAR(recorder.duration_quantile(1), 100, 1);
}

TEST(Recorder, SamplesAreSpacedByTimeAndThinOutAsTheRunGoesOn) {
  RecorderOptions options = simulated();
  options.sample_interval_ns = 1000;
  Recorder recorder(options);
  for (int i = 0; i < 100'000; ++i) {
    IterationScope iteration(recorder);
    spend(100);
  }
  const std::vector<Sample>& samples = recorder.samples();
  ASSERT_GT(samples.size(), static_cast<size_t>(Recorder::kMaxSamples) / 2);
  ASSERT_LE(samples.size(), static_cast<size_t>(Recorder::kMaxSamples));
  const int64_t spacing = samples[1].time_ns - samples[0].time_ns;
  EXPECT_EQ(spacing, 64'000);
  for (size_t i = 2; i < samples.size(); ++i) EXPECT_EQ(samples[i].time_ns - samples[i - 1].time_ns, spacing);
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

/// Long enough that some iterations aren't timed, whatever reading the clock costs.
constexpr int kShortIterations = 200'000;

TEST(Recorder, TimesARandomSampleOfShortIterations) {
  RecorderOptions options = simulated();
  options.timing_share = 0.001;
  options.heap_allocations = fake_allocations;
  Recorder recorder(options);
  int64_t elapsed = 0;
  for (int i = 0; i < kShortIterations; ++i) {
    recorder.begin_iteration();
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      spend(i % 4 == 3 ? 1600 : 800);
    }
    elapsed += i % 4 == 3 ? 1600 : 800;
    if (i % 2 == 0) ++g_allocations;
    recorder.end_iteration();
    spend(500);
    elapsed += 500;
  }
  const RunTotals& totals = recorder.totals();
  EXPECT_EQ(totals.iterations, kShortIterations);
  EXPECT_EQ(totals.heap_allocations, kShortIterations / 2);
  EXPECT_EQ(totals.allocating_iterations, kShortIterations / 2);
  ASSERT_GT(totals.timed_iterations, 300);
  ASSERT_LT(totals.timed_iterations, kShortIterations / 4);
  EXPECT_DOUBLE_EQ(recorder.overhead().timed_share,
                   static_cast<double>(totals.timed_iterations) / kShortIterations);
  // Of three in four 800, of one 1600: a sample on a beat would find one of them only.
  const auto timed = static_cast<double>(totals.timed_iterations);
  const double sampling_error = 4 * 800 * std::sqrt(0.25 * 0.75 / timed);
  EXPECT_NEAR(static_cast<double>(totals.total_ns) / timed, 1000, sampling_error);
  EXPECT_EQ(totals.phase_ns[static_cast<size_t>(Phase::kCompute)], totals.total_ns);
  EXPECT_NEAR(static_cast<double>(totals.between_phase_ns[static_cast<size_t>(Phase::kUnexplained)]) / timed,
              500, 5);
  EXPECT_NEAR(static_cast<double>(totals.elapsed_ns), static_cast<double>(elapsed),
              0.02 * static_cast<double>(elapsed));
  int64_t covered = 0;
  for (const Window& window : recorder.windows(0).closed()) covered += window.iterations + window.passed;
  EXPECT_NEAR(static_cast<double>(covered), kShortIterations, 0.03 * kShortIterations);
}

TEST(Recorder, TimesEveryIterationThatIsLongEnough) {
  RecorderOptions options = simulated();
  options.timing_share = 0.002;
  Recorder recorder(options);
  for (int i = 0; i < 1000; ++i) {
    const IterationScope iteration(recorder);
    spend(10'000'000);
  }
  EXPECT_EQ(recorder.totals().timed_iterations, 1000);
  EXPECT_EQ(recorder.overhead().timed_share, 1);
}

TEST(Recorder, ScopesBetweenIterationsCountWhetherTimedOrNot) {
  RecorderOptions options = simulated();
  options.timing_share = 0.001;
  Recorder recorder(options);
  for (int i = 0; i < kShortIterations; ++i) {
    {
      const IterationScope iteration(recorder);
      spend(1000);
    }
    if (i % 1000 != 0) continue;
    const PhaseScope save(recorder, Phase::kCheckpoint);
    spend(100'000);
  }
  EXPECT_EQ(recorder.totals().between_phase_ns[static_cast<size_t>(Phase::kCheckpoint)],
            100'000 * (kShortIterations / 1000));
  EXPECT_EQ(recorder.totals().between_phase_ns[static_cast<size_t>(Phase::kUnexplained)], 0);
}

TEST(Recorder, RejectsBadOptions) {
  EXPECT_THROW(Recorder({.timing_share = -0.1}), Error);
  EXPECT_THROW(Recorder({.reference_share = 0}), Error);
  EXPECT_THROW(Recorder({.sampling_share = 2}), Error);
  EXPECT_THROW(Recorder({.classes = 0}), Error);
  EXPECT_THROW(Recorder({.spike_factor = 1}), Error);
  EXPECT_THROW(Recorder({.sample_interval_ns = 0}), Error);
  EXPECT_THROW(Recorder({.gauges = {{"no reader", nullptr}}}), Error);
  EXPECT_THROW(Recorder({.gauges = std::vector<Gauge>(13, Gauge{"g", [](void*) { return int64_t{0}; }})}),
               Error);
}

}  // namespace
}  // namespace isochron::observe
