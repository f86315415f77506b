// Runs with pauses, several classes of steps or few iterations: what is said of them counts all iterations
// and no pause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isochron/core/base/rng.h"
#include "isochron/observe/diagnose/report.h"
#include "observe/statistics/simulated_clock.h"

namespace isochron::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A machine on which the reference kernel takes as long as a test says.
struct PlayedKernel final : SensorSource {
  void read(SensorReading& reading) override { reading.rss_bytes = 100'000'000; }
  void read_slow(SensorReading&) override {}
  int64_t waited_ns() override { return 0; }
  void watch_team(bool) override {}
  std::optional<double> reference_ns() override {
    ++references;
    spend(2'000);
    return reference;
  }
  double reference = 1'000;
  int64_t references = 0;
};

/// A recorded loop. Durations have 1 % of noise.
class RecordedLoop {
 public:
  void step(double ns, int step_class = 0) {
    recorder.begin_iteration(step_class);
    compute(ns);
    recorder.end_iteration();
  }
  void step_after_wait(double wait_ns, double ns) {
    const IterationScope iteration(recorder);
    {
      const PhaseScope wait(recorder, Phase::kDataWait);
      spend(std::llround(wait_ns));
    }
    compute(ns);
  }
  /// Pauses of an hour until a timed iteration has one.
  void pause() {
    const int64_t before = recorder.totals().max_ns;
    while (recorder.totals().max_ns == before) step(3.6e12);
  }
  RunReport report() const { return make_report(recorder, "loop"); }

  PlayedKernel machine;
  Recorder recorder{{.clock = simulated_now_ns, .sensors = &machine}};

 private:
  void compute(double ns) {
    const PhaseScope scope(recorder, Phase::kCompute);
    spend(std::llround(ns * (1 + 0.01 * random_.normal())));
  }
  Rng random_{7};
};

std::vector<std::string> cause_names_of(const RunReport& report) {
  std::vector<std::string> result;
  for (const Cause& cause : report.causes) result.push_back(cause.name);
  return result;
}

TEST(PausedRuns, AreTimedAsOftenAfterwards) {
  RecordedLoop loop;
  const auto counts = [&loop] {
    const int64_t timed = loop.recorder.totals().timed_iterations, references = loop.machine.references;
    for (int i = 0; i < 300'000; ++i) loop.step(10'000);
    return std::pair{static_cast<double>(loop.recorder.totals().timed_iterations - timed),
                     static_cast<double>(loop.machine.references - references)};
  };
  counts();
  const auto before = counts();
  loop.pause();
  const auto after = counts();
  EXPECT_NEAR(after.first / before.first, 1, 0.2);
  EXPECT_NEAR(after.second / before.second, 1, 0.2);
}

TEST(PausedRuns, AFirstStepOfNoTimeIsFollowedByTimedOnes) {
  RecordedLoop loop;
  loop.step(0);
  for (int i = 0; i < 10'000; ++i) loop.step(1'000'000);
  EXPECT_GT(loop.recorder.totals().timed_iterations, 9000);
}

TEST(PausedRuns, GrowthAndItsPositionAreFound) {
  for (const bool pause : {false, true}) {
    RecordedLoop loop;
    for (int i = 0; i < 800'000; ++i) {
      if (pause && i == 400'000) loop.pause();
      loop.step(i < 600'000 ? 10'000 : 13'000);
    }
    const RunReport report = loop.report();
    ASSERT_EQ(report.time.kind, Flatness::kGrowing) << report.time.reason;
    const size_t at = report.time.reason.find("from about iteration ");
    ASSERT_NE(at, std::string::npos) << report.time.reason;
    EXPECT_NEAR(std::stod(report.time.reason.substr(at + 21)), 600'000, 20'000);
    EXPECT_NEAR(*report.drift_seconds, 0.6, 0.1) << "not the pause";
  }
}

TEST(PausedRuns, TheCauseIsThePhaseThatGrows) {
  for (const double stall_at : {0.07, 0.5, 0.95}) {
    RecordedLoop waits_once, computes_once;
    constexpr int kSteps = 20'000;
    for (int i = 0; i < kSteps; ++i) {
      const double position = static_cast<double>(i) / kSteps;
      const double stall = i == static_cast<int>(stall_at * kSteps) ? 1e9 : 0;
      waits_once.step_after_wait(200'000 + stall, 1'000'000 * (1 + 0.3 * position));
      computes_once.step_after_wait(200'000 + 600'000 * position, 1'000'000 + stall);
    }
    EXPECT_GT(*waits_once.report().evidence.get("phase.compute.growth_share"), 0.95) << stall_at;
    EXPECT_GT(*computes_once.report().evidence.get("phase.data_wait.growth_share"), 0.95) << stall_at;
    EXPECT_THAT(cause_names_of(computes_once.report()), ElementsAre("starvation by the input")) << stall_at;
  }
}

TEST(SeveralClasses, PositionsCountAllSteps) {
  RecordedLoop loop;
  for (int i = 0; i < 8000; ++i)
    loop.step((i % 4 == 3 ? 20'000'000 : 1'000'000) * (i < 4800 ? 1 : 1.3), i % 4 == 3);
  const RunReport report = loop.report();
  ASSERT_EQ(report.time.kind, Flatness::kGrowing) << report.time.reason;
  const size_t at = report.time.reason.find("from about iteration ");
  ASSERT_NE(at, std::string::npos) << report.time.reason;
  EXPECT_NEAR(std::stod(report.time.reason.substr(at + 21)), 4800, 200);
}

TEST(SeveralClasses, AsManyMoreStepsAreNeededAsOfThatClass) {
  RecordedLoop loop;
  for (int i = 0; i < 200; ++i) loop.step(i % 4 == 3 ? 200'000'000 : 10'000'000, i % 4 == 3);
  const FlatnessVerdict time = loop.report().time;
  EXPECT_EQ(time.kind, Flatness::kInconclusive);
  EXPECT_NEAR(time.iterations_to_decide, 256, 8) << time.reason;
}

TEST(SeveralClasses, StepsBeforeTheFirstOfAClassCountAsNeeded) {
  RecordedLoop loop;
  for (int i = 0; i < 4060; ++i) loop.step(i < 4000 ? 1'000'000 : 200'000'000, i >= 4000);
  const FlatnessVerdict time = loop.report().time;
  EXPECT_EQ(time.kind, Flatness::kInconclusive);
  EXPECT_NEAR(time.iterations_to_decide, 4064, 1) << time.reason;
}

TEST(SeveralClasses, AreNotFlatIfTheSlowOnesBecomeMore) {
  Rng random(3);
  const auto shares = [&random](double from, double to) {
    RecordedLoop loop;
    for (int i = 0; i < 20'000; ++i) {
      const bool slow = random.uniform() < std::lerp(from, to, i / 20'000.0);
      loop.step(slow ? 4'000'000 : 1'000'000, slow);
    }
    return loop.report().time;
  };
  EXPECT_EQ(shares(0.3, 0.3).kind, Flatness::kFlat);
  const FlatnessVerdict rising = shares(0.05, 0.95);
  EXPECT_EQ(rising.kind, Flatness::kInconclusive);
  EXPECT_THAT(rising.reason, HasSubstr("their shares of the steps change"));
  RecordedLoop switched, by_epochs;
  for (int i = 0; i < 8000; ++i) {
    switched.step(i < 4000 ? 1'000'000 : 2'000'000, i >= 4000);
    by_epochs.step(i % 100 == 99 ? 50'000'000 : 1'000'000, i % 100 == 99);  // each epoch's evaluation
  }
  EXPECT_EQ(switched.report().time.kind, Flatness::kInconclusive);
  EXPECT_EQ(by_epochs.report().time.kind, Flatness::kFlat) << by_epochs.report().time.reason;
}

TEST(ShortRuns, AreToldWhatIsMissing) {
  RecordedLoop loop;
  for (int i = 0; i < 11; ++i) loop.step(20'000'000);
  loop.recorder.seal();
  for (int i = 0; i < 40; ++i) {
    loop.machine.reference = i < 20 ? 1'300 : 2'900;  // which would explain it
    loop.step(i < 20 ? 15'000'000 : 33'500'000);
  }
  const FlatnessVerdict time = loop.report().time;
  EXPECT_THAT(time.reason, HasSubstr("too short: 40 windows, 64 needed; 0.97 s, 2.0 s needed"));
  EXPECT_NEAR(time.iterations_to_decide, 11 + 40 * 2 / 0.97, 2) << "with the warm-up";
  EXPECT_NEAR(time.first_tenth, 15e6, 1e6);
  EXPECT_NEAR(time.last_tenth, 33.5e6, 2e6) << "as measured";
}

}  // namespace
}  // namespace isochron::observe
