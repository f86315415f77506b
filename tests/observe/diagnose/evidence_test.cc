#include "isochron/observe/diagnose/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "isochron/core/telemetry/counters.h"
#include "isochron/observe/record/event_file.h"
#include "observe/statistics/simulated_clock.h"
#include "support/temp_folder.h"

namespace isochron::observe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

/// A machine whose readings are set by a test.
struct Played final : SensorSource {
  SensorReading now;
  void read(SensorReading& reading) override {
    const SensorReading before = reading;
    reading = now;
    reading.heap_bytes = before.heap_bytes;
    reading.heap_free_bytes = before.heap_free_bytes;
  }
  void read_slow(SensorReading& reading) override {
    reading = now;
    spend(now.heap_free_bytes / 65'536 * chunk_ns);
  }
  int64_t chunk_ns = 0;  // what a walk over the heap costs per free chunk
  int64_t waited_ns() override { return 0; }
  void watch_team(bool) override {}
  std::optional<double> reference_ns() override { return {}; }
};

constexpr int kUsualIterations = 4000;
constexpr int64_t kStepNs = 200'000;

/// Iterations of equal time; each calls `step(machine, i, recorder)`.
template <typename Step>
RunReport run_steps(const Step& step, int iterations = kUsualIterations, int64_t step_ns = kStepNs,
                    int64_t chunk_ns = 0) {
  Played machine;
  machine.chunk_ns = chunk_ns;
  machine.now.rss_bytes = 23'000'000;
  machine.now.heap_bytes = 10'000'000;
  machine.now.heap_free_bytes = 100'000;
  Recorder recorder({.sample_interval_ns = 1'000'000,
                     .reference_kernel = false,
                     .timing_share = 0,
                     .sampling_share = chunk_ns > 0 ? 0.02 : 1,
                     .clock = simulated_now_ns,
                     .sensors = &machine});
  for (int i = 0; i < iterations; ++i) {
    const IterationScope iteration(recorder);
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      spend(step_ns);
    }
    step(machine.now, i, recorder);
  }
  recorder.sample();
  return make_report(recorder, "played");
}

std::vector<std::string> names(const RunReport& report) {
  std::vector<std::string> result;
  for (const Cause& cause : report.causes) result.push_back(cause.name);
  return result;
}

TEST(Evidence, AHeapThatTakesEverLongerToReadStillGrowsSteadily) {
  const auto in_holes = [](SensorReading& now, int, Recorder&) {
    now.heap_bytes += 256;
    now.heap_free_bytes += 65'536;
  };
  for (const int64_t chunk_ns : {0, 100, 300, 1000})
    EXPECT_THAT(names(run_steps(in_holes, kUsualIterations, kStepNs, chunk_ns)),
                ElementsAre("host heap fragmentation"))
        << chunk_ns;
}

TEST(Evidence, WhatMallocTakesAheadIsNoGrowth) {
  const auto taken = [](int64_t piece, int64_t kept) {
    return run_steps(
               [=](SensorReading& now, int i, Recorder&) {
                 if (i == 1000 || i == 2200) now.rss_bytes += piece;
                 if (i % 200 == 199) now.heap_bytes += kept;
               },
               kUsualIterations, 5 * kStepNs)
        .find_series("rss_bytes")
        ->verdict->kind;
  };
  EXPECT_EQ(taken(300'000, 0), Flatness::kFlat);
  EXPECT_EQ(taken(300'000, 30'000), Flatness::kGrowing);
  EXPECT_EQ(taken(1'500'000, 0), Flatness::kGrowing);
}

TEST(Evidence, WhatIsTakenAFewTimesIsNoListThatGrows) {
  const auto growing_each = [](int every, int64_t bytes, int most = kUsualIterations) {
    return run_steps([=](SensorReading& now, int i, Recorder&) {
      if (i % every == every / 2 && i < most) now.heap_bytes += bytes;
    });
  };
  EXPECT_THAT(names(growing_each(500, 130'000)), IsEmpty());  // eight epochs, a buffer in each
  EXPECT_THAT(names(growing_each(800, 1'000'000)), IsEmpty());
  EXPECT_THAT(names(growing_each(1, 200)), ElementsAre("metrics kept in lists"));
  EXPECT_THAT(names(growing_each(50, 10'000)), ElementsAre("metrics kept in lists"));
  EXPECT_THAT(names(growing_each(1, 2000, 400)), IsEmpty());  // fills once
}

TEST(Evidence, AListThatDoublesIsNamedWhateverElseTheHeapDoes) {
  const auto doubling = [](bool old_stays_free, int64_t beside, int last) {
    const auto step = [=](SensorReading& now, int i, Recorder&) {
      constexpr int64_t kEntryBytes = 1024;
      if (i % 100 == 50) now.heap_bytes += i % 200 == 50 ? beside : -beside;
      if (i < 64 || (i & (i - 1)) != 0 || i > last) return;
      now.heap_bytes += i * kEntryBytes;  // room for 2 i entries in place of i
      if (old_stays_free) now.heap_free_bytes += i * kEntryBytes;
    };
    return names(run_steps(step, 20'000));
  };
  EXPECT_THAT(doubling(false, 0, 20'000), ElementsAre("metrics kept in lists"));
  EXPECT_THAT(doubling(true, 0, 20'000), ElementsAre("metrics kept in lists"));
  EXPECT_THAT(doubling(false, 40'000, 20'000), ElementsAre("metrics kept in lists"));
  EXPECT_THAT(doubling(false, 0, 2'000), IsEmpty()) << "full long ago, and not again";
}

TEST(Evidence, EventFilesAreNoLogs) {
  const TempFolder folder;
  EventFile events(folder.path());
  const std::vector<float> numbers{1, 2, 3, 4, 5};
  const HistogramSummary histogram = summarize(std::span<const float>(numbers));
  const auto logging = [&](int scalars, int64_t others) {
    return run_steps([&, scalars, others](SensorReading& now, int i, Recorder&) {
      const int64_t before = EventFile::bytes_written();
      for (int k = 0; k < scalars; ++k) events.histogram("weights", i, histogram);
      now.written_bytes += EventFile::bytes_written() - before + others;
      now.stored_bytes = now.written_bytes;
    });
  };
  const RunReport own = logging(1, 0);
  EXPECT_THAT(names(own), IsEmpty());
  EXPECT_GT(own.find_series("event_bytes")->last - own.find_series("event_bytes")->first, 262'144);
  EXPECT_THAT(names(logging(0, 100)), ElementsAre("event files and logs pile up"));
  EXPECT_THAT(names(logging(1, 100)), ElementsAre("event files and logs pile up"));
  EXPECT_THAT(names(logging(0, 40)), IsEmpty()) << "not yet a quarter of a megabyte";
}

TEST(Evidence, WhatRanksSendIsNoLog) {
  const auto sending = [](int64_t stored) {
    return run_steps([stored](SensorReading& now, int, Recorder&) {
      count(Counter::kSentBytes, 1000);
      now.written_bytes += 1100;  // over TCP
      now.stored_bytes += stored;
    });
  };
  EXPECT_THAT(names(sending(0)), Not(Contains("event files and logs pile up")));
  EXPECT_THAT(names(sending(100)), Contains("event files and logs pile up"));
}

TEST(Evidence, WhatGoesToATerminalIsNoLog) {
  const auto printing = [](int64_t stored) {
    return run_steps([stored](SensorReading& now, int, Recorder&) {
      now.written_bytes += 100;
      now.stored_bytes += stored;
    });
  };
  EXPECT_THAT(names(printing(0)), Not(Contains("event files and logs pile up")));
  EXPECT_THAT(names(printing(100)), Contains("event files and logs pile up"));
}

TEST(Evidence, TheRestOfAPageIsNoLog) {
  const RunReport saving = run_steps([](SensorReading& now, int i, Recorder&) {
    if (i % 10 != 9) return;
    count(Counter::kWeightBytes, 300);
    now.written_bytes += 300;
    now.stored_bytes += 4096;
  });
  EXPECT_THAT(names(saving), Not(Contains("event files and logs pile up")));
}

TEST(Evidence, AClockWithoutReadingsSaysNothing) {
  RunData data = run_data(std::vector<double>(100, 1e6), "played");
  data.durations_only = false;
  data.series = {{"clock_khz", false, {}}};
  EXPECT_FALSE(make_report(data).evidence.get("clock_khz.drop"));
}

TEST(Evidence, MemoryThatIsNotReportedIsUnknown) {
  const RunReport report =
      run_steps([](SensorReading& now, int, Recorder&) { now.rss_bytes = kUnknownReading; });
  EXPECT_NE(report.find_series("rss_bytes"), nullptr) << "known at first";
  Played machine;
  machine.now.rss_bytes = kUnknownReading;
  Recorder recorder({.reference_kernel = false, .clock = simulated_now_ns, .sensors = &machine});
  for (int i = 0; i < 100; ++i) {
    const IterationScope iteration(recorder);
    spend(kStepNs);
  }
  recorder.sample();
  const RunReport unknown = make_report(recorder, "played");
  EXPECT_EQ(unknown.find_series("rss_bytes"), nullptr);
  EXPECT_THAT(summary_text({&unknown, 1}), testing::HasSubstr("  unknown  "));
}

TEST(Evidence, EventBytesAreThoseOfTheFile) {
  const TempFolder folder;
  const int64_t before = EventFile::bytes_written();
  EventFile events(folder.path());
  events.scalar("loss", 1, 0.5);
  events.scalar("accuracy", 1, 0.25);
  events.flush();
  EXPECT_EQ(EventFile::bytes_written() - before,
            static_cast<int64_t>(std::filesystem::file_size(events.path())));
}

TEST(Evidence, OneLongWaitIsNoStarvation) {
  const RunReport once = run_steps([](SensorReading&, int i, Recorder& recorder) {
    const PhaseScope wait(recorder, Phase::kDataWait);
    spend(i == 1000 ? 4 * kUsualIterations * kStepNs : 1000);
  });
  EXPECT_GT(once.evidence.get("phase.data_wait.share").value(), 0.6);
  EXPECT_THAT(names(once), Not(Contains("starvation by the input")));
  const RunReport often = run_steps([](SensorReading&, int i, Recorder& recorder) {
    const PhaseScope wait(recorder, Phase::kDataWait);
    spend(i % 40 == 0 ? 160 * kStepNs : 1000);
  });
  EXPECT_LT(often.evidence.get("phase.data_wait.usual_share").value(), 0.3);
  EXPECT_THAT(names(often), Contains("starvation by the input"));
}

TEST(Evidence, ARunOfMillisecondsTellsNoShares) {
  const auto waiting = [](SensorReading&, int, Recorder& recorder) {
    const PhaseScope wait(recorder, Phase::kDataWait);
    spend(9000);
  };
  EXPECT_THAT(names(run_steps(waiting, 2000, 1000)), IsEmpty());  // 20 ms
  EXPECT_THAT(names(run_steps(waiting, 40'000, 1000)), ElementsAre("starvation by the input"));
}

TEST(Evidence, WhatHappensAtTheBeginningIsNotTakenForWhatEachStepDoes) {
  const auto beginning = [](const auto& act, int until) {
    return run_steps([&act, until](SensorReading& now, int i, Recorder&) {
      if (i < until) act(now);
    });
  };
  const auto fault = [](SensorReading& now) { now.minor_faults += 200; };
  EXPECT_THAT(names(beginning(fault, 1000)), IsEmpty());
  EXPECT_THAT(names(beginning(fault, kUsualIterations)), ElementsAre("page faults"));
  const auto allocate = [](SensorReading&) { count(Counter::kSystemAllocations, 10); };
  EXPECT_THAT(names(beginning(allocate, 1000)), IsEmpty());
  EXPECT_THAT(names(beginning(allocate, kUsualIterations)), ElementsAre("system allocations in each step"));
  const auto trace = [](SensorReading&) { count(Counter::kTraces, 1); };
  EXPECT_THAT(names(beginning(trace, 100)), Not(Contains("retraced for new signatures")));
  EXPECT_THAT(names(beginning(trace, kUsualIterations)), Contains("retraced for new signatures"));
  const auto optimizer = [](SensorReading&) { count(Counter::kOptimizerStates, 1); };
  EXPECT_THAT(names(beginning(optimizer, 100)), IsEmpty());
  EXPECT_THAT(names(beginning(optimizer, kUsualIterations)), ElementsAre("optimizer state made again"));
}

TEST(Evidence, WhatSlowIterationsDoIsNotTakenForWhatEachStepDoes) {
  // The slow iterations make up most of the run's parts, which take equal time.
  const RunReport report = run_steps([](SensorReading& now, int i, Recorder&) {
    if (i < 1000 || i >= 2500) return;
    spend(5 * kStepNs);
    now.minor_faults += 100;
  });
  EXPECT_NEAR(report.evidence.get("minor_faults.usual_per_iteration").value(), 37.5, 1);
  EXPECT_THAT(names(report), Not(Contains("page faults")));
}

TEST(Evidence, SpikesOnABeatAreNamedWhereTheyCostSomething) {
  const auto spiking = [](int64_t ns, int64_t interruption_ns = 0, Phase phase = Phase::kCallbacks) {
    return run_steps([=](SensorReading&, int i, Recorder& recorder) {
      if (i == 333 || i == 1250 || i == 2077 || i == 3510) spend(interruption_ns);
      const PhaseScope callbacks(recorder, phase, "collection");
      if (i % 100 == 99) spend(ns);
    });
  };
  EXPECT_THAT(names(spiking(5 * kStepNs)), ElementsAre("spikes owned by collection, period 100"));
  const RunReport cheap = spiking(kStepNs + kStepNs / 2);
  EXPECT_TRUE(cheap.spikes.period);
  EXPECT_THAT(names(cheap), IsEmpty());
  // What interrupts the program at any time is no cost of theirs.
  const RunReport interrupted = spiking(kStepNs + kStepNs / 2, 50 * kStepNs);
  EXPECT_EQ(interrupted.spikes.owner_name(), "collection");
  EXPECT_GT(interrupted.spikes.time_share, 0.02);
  EXPECT_THAT(names(interrupted), IsEmpty());
  const RunReport saved = spiking(kStepNs + kStepNs / 2, 50 * kStepNs, Phase::kCheckpoint);
  EXPECT_GT(saved.spikes.time_share, 0.02);
  EXPECT_NEAR(saved.evidence.get("spikes.checkpoint.time_share").value(), 0.015, 0.003);
  EXPECT_THAT(names(saved), IsEmpty());
}

// Steps with an update take longer and longer to communicate. The other steps take up more of the time and
// wait a little longer for data.
TEST(Evidence, TheClassThatGrowsSaysInWhichPhase) {
  Played machine;
  Recorder recorder({.classes = 2,
                     .sample_interval_ns = 1'000'000,
                     .reference_kernel = false,
                     .timing_share = 0,
                     .clock = simulated_now_ns,
                     .sensors = &machine});
  for (int i = 0; i < 4 * kUsualIterations; ++i) {
    const bool updates = i % 4 == 3;
    const IterationScope iteration(recorder, updates ? 1 : 0);
    {
      const PhaseScope wait(recorder, Phase::kDataWait);
      spend(10'000 + (updates ? 0 : i / 50));
    }
    const PhaseScope phase(recorder, updates ? Phase::kCommunication : Phase::kCompute);
    spend(kStepNs + (updates ? i * kStepNs / (4 * kUsualIterations) : 0));
  }
  recorder.sample();
  const RunReport report = make_report(recorder, "played");
  EXPECT_EQ(report.time.kind, Flatness::kGrowing);
  EXPECT_GT(report.evidence.get("phase.communication.growth_share").value(), 0.9);
}

TEST(Evidence, SharesOfAResumedRunAreOfItsOwnTime) {
  Played machine;
  const RecorderOptions options{.sample_interval_ns = 1'000'000,
                                .reference_kernel = false,
                                .timing_share = 0,
                                .clock = simulated_now_ns,
                                .sensors = &machine};
  machine.now.throttled_ns = 0;
  Recorder before(options), after(options);
  const auto play = [&](Recorder& recorder, int iterations, int64_t throttled_ns) {
    for (int i = 0; i < iterations; ++i) {
      const IterationScope iteration(recorder);
      spend(kStepNs);
      machine.now.throttled_ns += throttled_ns;
      machine.now.major_faults += throttled_ns > 0 ? 1 : 0;
    }
    recorder.sample();
  };
  play(before, 10 * kUsualIterations, 0);
  after.seal_and_continue(before.baseline());
  play(after, kUsualIterations, kStepNs / 3);
  const RunReport report = make_report(after, "resumed");
  EXPECT_NEAR(report.evidence.get("throttled.share").value(), 1.0 / 3, 0.02);
  EXPECT_NEAR(report.evidence.get("major_faults.per_second").value(), 1e9 / kStepNs, 300);
}

TEST(Evidence, TimesThatGoBackAreNoneOfARanks) {
  Played machine;
  machine.now.stolen_ns = machine.now.throttled_ns = 1'000'000;
  Recorder recorder({.reference_kernel = false, .clock = simulated_now_ns, .sensors = &machine});
  for (int i = 0; i < 10; ++i) {
    const IterationScope iteration(recorder);
    spend(kStepNs);
  }
  machine.now.stolen_ns = machine.now.throttled_ns = 999'990;
  recorder.sample();
  const RankDescription own = recorder.describe_rank();
  EXPECT_EQ(own.stolen_ns, 0);
  EXPECT_EQ(own.throttled_ns, 0);
}

TEST(Evidence, LevelsOfAResumedRunAreJudgedByItsOwnTime) {
  Played machine;
  machine.now.rss_bytes = 23'000'000;
  const RecorderOptions options{.sample_interval_ns = 1'000'000,
                                .reference_kernel = false,
                                .timing_share = 0,
                                .sampling_share = 1,
                                .clock = simulated_now_ns,
                                .sensors = &machine};
  Recorder before(options), after(options);
  const auto play = [&](Recorder& recorder, int iterations) {
    for (int i = 0; i < iterations; ++i) {
      const IterationScope iteration(recorder);
      spend(kStepNs);
    }
    recorder.sample();
  };
  play(before, 10 * kUsualIterations);
  after.seal_and_continue(before.baseline());
  play(after, 600'000'000 / kStepNs / 2);  // 0.3 s
  const RunReport report = make_report(after, "resumed");
  EXPECT_GT(report.seconds, 8);
  EXPECT_EQ(report.find_series("rss_bytes")->verdict->kind, Flatness::kInconclusive);
  EXPECT_EQ(make_report(before, "before").find_series("rss_bytes")->verdict->kind, Flatness::kFlat);
}

}  // namespace
}  // namespace isochron::observe
