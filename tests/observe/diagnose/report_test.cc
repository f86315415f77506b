#include "isochron/observe/diagnose/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/telemetry/weight_bytes.h"
#include "observe/statistics/simulated_clock.h"

namespace isochron::observe {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> cause_names(const std::vector<Cause>& causes) {
  std::vector<std::string> result;
  for (const Cause& cause : causes) result.push_back(cause.name);
  return result;
}

Evidence evidence(std::initializer_list<std::pair<const char*, double>> values) {
  Evidence result;
  result.set("time.slower", 1);
  for (const auto& [name, value] : values) result.set(name, value);
  return result;
}

TEST(Cause, NothingToExplainNamesNothing) {
  EXPECT_TRUE(
      attribute(evidence({{"phase.data_wait.usual_share", 0.9}, {"graph_nodes.per_iteration", 3}})).empty());
}

TEST(Cause, NamesWhatTheCatalogueAsksFor) {
  using ::testing::ElementsAre;
  EXPECT_THAT(cause_names(attribute(evidence({{"time.growing", 1},
                                              {"graph_nodes.growing", 1},
                                              {"live_tensors.growing", 1},
                                              {"live_tensors.gained", 99}}))),
              ElementsAre("ops added in the loop"));
  EXPECT_THAT(cause_names(attribute(evidence(
                  {{"time.growing", 1}, {"tape_entries.growing", 1}, {"tape_entries.drives_time", 0.8}}))),
              ElementsAre("ops added in the loop"));
  EXPECT_THAT(cause_names(attribute(evidence(
                  {{"time.growing", 1}, {"tape_entries.growing", 1}, {"tape_entries.drives_time", 0.1}}))),
              ElementsAre("retained losses or history"));
  EXPECT_THAT(cause_names(attribute(evidence(
                  {{"tape_entries.growing", 1}, {"live_tensors.growing", 1}, {"live_tensors.gained", 99}}))),
              ElementsAre("retained losses or history"));
  EXPECT_THAT(cause_names(attribute(evidence(
                  {{"live_tensors.growing", 1}, {"live_tensors.gained", 99}, {"rss_bytes.growing", 1}}))),
              ElementsAre("retained losses or history"));
  EXPECT_THAT(cause_names(attribute(evidence({{"time.slower", 40},
                                              {"traces.per_iteration", 1},
                                              {"traces.gained", 100},
                                              {"traces.late_share", 0.5}}))),
              ElementsAre("retraced for new signatures"));
  EXPECT_THAT(cause_names(attribute(evidence({{"graph_nodes.growing", 1},
                                              {"plans.growing", 1},
                                              {"traces.per_iteration", 1},
                                              {"traces.gained", 100},
                                              {"traces.late_share", 0.5}}))),
              ElementsAre("retraced for new signatures"));
  EXPECT_THAT(cause_names(attribute(
                  evidence({{"rss_bytes.growing", 1}, {"bytes_reserved.growing", 1}, {"pool.slack", 1}}))),
              ElementsAre("host heap fragmentation"));
  EXPECT_THAT(
      cause_names(attribute(evidence({{"buffered_elements.growing", 1}, {"buffered_elements.rise", 1}}))),
      ElementsAre("prefetch or cache without a bound"));
  EXPECT_THAT(cause_names(attribute(evidence({{"time.slower", 3}, {"phase.data_wait.usual_share", 0.6}}))),
              ElementsAre("starvation by the input"));
  EXPECT_THAT(
      cause_names(attribute(evidence({{"time.slower", 3}, {"phase.host_to_device.usual_share", 0.6}}))),
      ElementsAre("synchronous or many small transfers"));
  EXPECT_THAT(
      cause_names(attribute(evidence({{"time.slower", 3}, {"system_allocations.usual_per_iteration", 20}}))),
      ElementsAre("system allocations in each step"));
  EXPECT_THAT(
      cause_names(attribute(evidence({{"disk_bytes.growing", 1}, {"disk_bytes.weights_share", 0.9}}))),
      ElementsAre("checkpoints pile up"));
  EXPECT_THAT(cause_names(attribute(evidence({{"time.growing", 1}, {"phase.checkpoint.growth_share", 0.9}}))),
              ElementsAre("checkpoints block"));
  EXPECT_THAT(cause_names(attribute(evidence({{"disk_bytes.growing", 1}}))),
              ElementsAre("event files and logs pile up"));
  EXPECT_THAT(cause_names(attribute(evidence({{"time.machine_slowed", 1}}))),
              ElementsAre("the machine slowed, not the program"));
}

TEST(Cause, AdmitsWhatItCannotExplain) {
  const std::vector<Cause> causes = attribute(
      evidence({{"time.growing", 1}, {"phase.compute.growth_share", 0.9}, {"phase.log.growth_share", 0.1}}));
  ASSERT_THAT(cause_names(causes), ::testing::ElementsAre("unexplained"));
  EXPECT_THAT(causes[0].evidence, HasSubstr("90 % of it in phase compute"));
  // A cause of growing disk use does not explain growing time.
  EXPECT_THAT(cause_names(attribute(evidence({{"time.growing", 1}, {"disk_bytes.growing", 1}}))),
              ::testing::ElementsAre("event files and logs pile up", "unexplained"));
}

TEST(Cause, EveryRowCanMatch) {
  for (const CauseRule& rule : cause_rules()) {
    Evidence all;
    all.set("time.slower", 2);
    if (rule.explains & kTimeGrows) all.set("time.growing", 1);
    if (rule.explains & kMemoryGrows) all.set("rss_bytes.growing", 1);
    for (const Condition& condition : rule.conditions) {
      if (condition.comparison == Condition::kAtLeast)
        all.set(std::string(condition.quantity), 2 * condition.threshold);
      if (condition.comparison == Condition::kBelow) all.set(std::string(condition.quantity), 0);
    }
    std::vector<std::string> found;
    for (const Cause& cause : attribute(all)) {
      found.push_back(cause.name);
      found.insert(found.end(), cause.consequences.begin(), cause.consequences.end());
    }
    EXPECT_THAT(found, ::testing::Contains(std::string(rule.cause)));
    EXPECT_FALSE(rule.fix.empty());
    EXPECT_NE(rule.explains, 0U);
  }
}

TEST(Cause, NamesTheRootAndListsWhatFollows) {
  const std::vector<Cause> causes = attribute(evidence({{"time.growing", 1},
                                                        {"graph_nodes.growing", 1},
                                                        {"live_tensors.growing", 1},
                                                        {"live_tensors.gained", 99},
                                                        {"minor_faults.share", 0.5}}));
  ASSERT_THAT(cause_names(causes), ::testing::ElementsAre("ops added in the loop"));
  EXPECT_THAT(causes[0].consequences, ::testing::ElementsAre("retained losses or history", "page faults"));
}

TEST(Cause, NamesTwoThatHaveNothingToDoWithEachOther) {
  EXPECT_THAT(cause_names(attribute(
                  evidence({{"not_finite.met", 1}, {"pinned_bytes.rise", 1}, {"pinned_bytes.gained", 1e9}}))),
              ::testing::UnorderedElementsAre("NaN", "pinned pool growth"));
}

TEST(Cause, RatesOfShortRunsTellNothing) {
  Evidence numbers;
  numbers.set("minor_faults.share", 0.5);
  numbers.set("run.iterations", 20);
  EXPECT_TRUE(attribute(numbers).empty());
  numbers.set("run.iterations", 64);
  EXPECT_THAT(cause_names(attribute(numbers)), ::testing::ElementsAre("page faults"));
}

TEST(Cause, CatalogueHasEachOfTheRulesOnceAndNoCycle) {
  std::vector<std::string_view> listed;
  for (const CatalogueEntry& entry : catalogue()) {
    EXPECT_THAT(listed, ::testing::Not(::testing::Contains(entry.cause)));
    listed.push_back(entry.cause);
    EXPECT_FALSE(brings_along(entry.cause, entry.cause));
    for (const std::string_view other : entry.brings) EXPECT_FALSE(brings_along(other, entry.cause)) << other;
  }
  for (const CauseRule& rule : cause_rules()) EXPECT_THAT(listed, ::testing::Contains(rule.cause));
}

struct Loop {
  int iterations = 20'000;
  int64_t base_ns = 200'000;
  int64_t growth_ns = 0;        // the i-th step takes i * growth_ns longer,
  int64_t nodes = 0;            // and adds so many graph nodes
  int64_t collection_ns = 0;    // every tenth step ends with a collection
  int64_t interruption_ns = 0;  // one random step in a hundred is interrupted
};

RunReport run_loop(const std::string& name, const Loop& loop) {
  Recorder recorder({.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns});
  Rng rng(1);
  for (int i = 0; i < loop.iterations; ++i) {
    IterationScope iteration(recorder);
    {
      PhaseScope compute(recorder, Phase::kCompute);
      spend(static_cast<int64_t>(static_cast<double>(loop.base_ns + i * loop.growth_ns) *
                                 (1 + 0.1 * rng.uniform())));
      if (loop.interruption_ns > 0 && rng.uniform() < 0.01) spend(loop.interruption_ns);
    }
    count(Counter::kGraphNodes, loop.nodes);
    if (i % 10 != 9 || loop.collection_ns == 0) continue;
    PhaseScope collect(recorder, Phase::kCallbacks, "collection");
    spend(loop.collection_ns);
  }
  RunReport report = make_report(recorder, name);
  count(Counter::kGraphNodes, -loop.nodes * loop.iterations);
  return report;
}

TEST(Report, GrowingLoopIsNamedWithItsCause) {
  const RunReport report = run_loop("slow", {.growth_ns = 10, .nodes = 3});
  EXPECT_EQ(report.time.kind, Flatness::kGrowing);
  EXPECT_GT(report.time.slope, 0);
  ASSERT_NE(report.find_series("graph_nodes"), nullptr);
  EXPECT_EQ(report.find_series("graph_nodes")->verdict->kind, Flatness::kGrowing);
  EXPECT_NEAR(report.find_series("graph_nodes")->per_iteration, 3, 1e-9);
  EXPECT_NEAR(report.time.slope, 10.5, 1);
  EXPECT_THAT(cause_names(report.causes), ::testing::ElementsAre("ops added in the loop"));
  EXPECT_THAT(summary_text({&report, 1}), HasSubstr("slow: graph_nodes grows: "));
  EXPECT_EQ(report.find_series("no such"), nullptr);
}

TEST(Report, WhatFilledOnceIsNotToldToGrow) {
  Recorder recorder({.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns});
  for (int i = 0; i < 8000; ++i) {
    const IterationScope iteration(recorder);
    spend(400'000);
    if (i == 2500) count(Counter::kLiveTensors, 1000);
  }
  const RunReport report = make_report(recorder, "filled");
  count(Counter::kLiveTensors, -1000);
  EXPECT_EQ(report.find_series("live_tensors")->verdict->kind, Flatness::kGrowing);
  EXPECT_THAT(summary_text({&report, 1}), ::testing::Not(HasSubstr("live_tensors grows")));
}

TEST(Report, PeriodicSpikesAreOwned) {
  const RunReport report = run_loop("spiky", {.collection_ns = 400'000});
  ASSERT_TRUE(report.spikes.period);
  EXPECT_EQ(report.spikes.period->length, 10);
  EXPECT_EQ(report.spikes.label, "collection");
  EXPECT_EQ(report.spikes.owner, Phase::kCallbacks);
  EXPECT_EQ(report.time.kind, Flatness::kFlat);
  EXPECT_THAT(cause_names(report.causes), ::testing::ElementsAre("spikes owned by collection, period 10"));
}

TEST(Report, APoolThatGrowsOwnsItsSpikes) {
  constexpr int kIterations = 8000, kPeriod = 400;
  constexpr int64_t kChunk = int64_t{64} << 20;
  Recorder recorder({.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns});
  for (int i = 1; i <= kIterations; ++i) {
    const IterationScope iteration(recorder);
    const PhaseScope compute(recorder, Phase::kCompute);
    spend(100'000);
    count(Counter::kLiveTensors, 1);
    if (i % kPeriod != i / kPeriod % 3) continue;  // a little off the beat
    count(Counter::kBytesReserved, kChunk);
    spend(150'000'000);
  }
  const RunReport report = make_report(recorder, "growing pool");
  count(Counter::kBytesReserved, -counter_value(Counter::kBytesReserved));
  count(Counter::kLiveTensors, -kIterations);
  EXPECT_EQ(report.spikes.owner_name(), "memory taken from the system");
  ASSERT_TRUE(report.spikes.period);
  EXPECT_NEAR(static_cast<double>(report.spikes.period->length), 400, 2);
  ASSERT_FALSE(report.causes.empty());
  EXPECT_EQ(report.causes[0].name, "retained losses or history");
  EXPECT_THAT(report.causes[0].consequences,
              ::testing::Contains(HasSubstr("spikes owned by memory taken from the system, period 40")));
}

TEST(Report, WhatAnotherThreadWritesOwnsTheSpikesAndIsACauseOnlyWhereItCostsMuch) {
  const auto run = [](bool own, int64_t extra_ns) {
    Recorder recorder({.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns});
    for (int i = 0; i < 8000; ++i) {
      const IterationScope iteration(recorder);
      const PhaseScope compute(recorder, Phase::kCompute);
      spend(100'000);
      if (i % 45 != 0) continue;
      if (!own) count(Counter::kPlanSwitches, 1);  // a validation ran before
      own ? count_weight_bytes(1000) : count(Counter::kWeightBytes, 1000);
      spend(extra_ns);
    }
    return make_report(recorder, "saving");
  };
  const RunReport little = run(false, 150'000);
  EXPECT_EQ(little.spikes.label, kSavedBesideLabel);
  EXPECT_TRUE(little.spikes.period);
  EXPECT_THAT(cause_names(little.causes), ::testing::IsEmpty());
  const RunReport own = run(true, 150'000);
  EXPECT_EQ(own.spikes.label, kSavedLabel);
  ASSERT_THAT(cause_names(own.causes), ::testing::ElementsAre("checkpoints block"));
  EXPECT_THAT(own.causes[0].fix, HasSubstr("save in the background"));
  const RunReport much = run(false, 400'000);
  ASSERT_THAT(cause_names(much.causes), ::testing::ElementsAre("checkpoints block"));
  EXPECT_THAT(much.causes[0].fix, HasSubstr("takes a core from the step"));
}

TEST(Report, WhatInterruptsAProgramDoesntHideWhatItDoesOnABeat) {
  const SpikeReport hidden =
      run_loop("interrupted", {.collection_ns = 400'000, .interruption_ns = 8'000'000}).spikes;
  EXPECT_EQ(hidden.owner_name(), "collection");
  ASSERT_TRUE(hidden.period);
  EXPECT_EQ(hidden.period->length, 10);
  const SpikeReport mostly =
      run_loop("mostly interrupted", {.collection_ns = 400'000, .interruption_ns = 80'000'000}).spikes;
  EXPECT_EQ(mostly.owner, Phase::kCompute);
  EXPECT_EQ(mostly.label, "");
  EXPECT_FALSE(mostly.period);
}

/// A machine that reports only page faults.
struct Faulting final : SensorSource {
  int64_t faults = 0;
  void read(SensorReading& reading) override {
    reading = {};
    reading.minor_faults = faults;
  }
  void read_slow(SensorReading&) override {}
  int64_t waited_ns() override { return 0; }
  void watch_team(bool) override {}
  std::optional<double> reference_ns() override { return {}; }
};

TEST(Report, PageFaultsAreHeldAgainstTheTimeOfTheIterationsThatHaveThem) {
  const auto run = [](int64_t every, int64_t extra_ns) {
    Faulting machine;
    Recorder recorder(
        {.reference_kernel = false, .timing_share = 0, .clock = simulated_now_ns, .sensors = &machine});
    for (int i = 0; i < 20'000; ++i) {
      const IterationScope iteration(recorder);
      spend(15'000);
      if (i % every != 0) continue;
      machine.faults += 3 * every;
      spend(extra_ns);
    }
    recorder.sample();
    return make_report(recorder, "faulting");
  };
  const RunReport rare = run(20, 5'000'000), each = run(1, 0);
  EXPECT_NEAR(rare.evidence.get("minor_faults.share").value(), 3 * 500 / 265'000.0, 1e-3);
  EXPECT_THAT(cause_names(rare.causes), ::testing::Not(::testing::Contains("page faults")));
  EXPECT_NEAR(each.evidence.get("minor_faults.share").value(), 3 * 500 / 15'000.0, 1e-3);
  EXPECT_THAT(cause_names(each.causes), ::testing::ElementsAre("page faults"));
}

TEST(Report, PrintsManyLoopsAligned) {
  std::vector<RunReport> reports{run_loop("a loop with a long name", {.base_ns = 400'000}),
                                 run_loop("b", {})};
  compare_with_cured(reports[0], reports[1]);
  compare_with_cured(reports[1], reports[1]);
  EXPECT_DOUBLE_EQ(*reports[1].times_slower, 1);
  EXPECT_NEAR(*reports[0].times_slower, 2, 0.01);
  EXPECT_THAT(summary_text(std::span(reports).first(1)), HasSubstr("vs cured"));
  EXPECT_THAT(summary_text(std::vector{run_loop("alone", {})}), ::testing::Not(HasSubstr("vs cured")));
  const std::string text = summary_text(reports);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  ASSERT_GE(lines.size(), 7U);
  EXPECT_EQ(lines[3], "") << "a table of times, then one of resources";
  const size_t steps = lines[4].find("steps") + 5;
  EXPECT_EQ(lines[5].substr(steps - 5, 5), "20000");
  EXPECT_EQ(lines[6].substr(steps - 5, 5), "20000");
  EXPECT_EQ(text.back(), '\n');
}

TEST(Report, JsonHasTheDocumentedKeysAndNoInfinities) {
  RunReport report = run_loop("json \xff", {.iterations = 200});
  report.time.iterations_to_decide = std::numeric_limits<double>::infinity();
  const std::string json = to_json(report, -1);
  for (const char* key : {"\"name\":", "\"iterations\":200,", "\"duration_ns\":{\"min\":",
                          "\"time\":{\"kind\":", "\"iterations_to_decide\":null", "\"series\":[",
                          "\"phases_ns\":{\"data_wait\":", "\"spikes\":{\"count\":", "\"causes\":[",
                          "\"allocations\":{\"heap_per_step\":null", "\"times_slower\":null",
                          "\"overhead\":{", "\"environment\":{\"cpu\":"}) {
    EXPECT_THAT(json, HasSubstr(key));
  }
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

TEST(Report, CsvHasOneRowAWindow) {
  const RunReport report = run_loop("csv", {.iterations = 300});
  const std::string csv = to_csv(report);
  const auto rows = std::count(csv.begin(), csv.end(), '\n');
  EXPECT_EQ(rows, static_cast<std::ptrdiff_t>(report.windows.size()) + 1);
  const size_t header_end = csv.find('\n');
  const std::string second = csv.substr(header_end + 1, csv.find('\n', header_end + 1) - header_end - 1);
  EXPECT_EQ(std::count(second.begin(), second.end(), ','),
            std::count(csv.begin(), csv.begin() + static_cast<std::ptrdiff_t>(header_end), ','));
}

TEST(Report, ShortRunIsInconclusive) {
  const RunReport report = run_loop("short", {.iterations = 1000});  // 0.2 s
  EXPECT_EQ(report.time.kind, Flatness::kInconclusive);
  EXPECT_THAT(report.time.reason, HasSubstr("too short"));
  EXPECT_THAT(summary_text({&report, 1}), HasSubstr("steps would be needed to decide"));
}

TEST(Report, RefusesAnEmptyRecorder) {
  const Recorder recorder;
  EXPECT_THROW(make_report(recorder, "nothing"), Error);
}

TEST(Report, SlowerIsToldByMeansSoThatPausesCount) {
  RunReport pausing = run_loop("pausing", {.collection_ns = 4'000'000});
  const RunReport cured = run_loop("cured", {});
  compare_with_cured(pausing, cured);
  EXPECT_NEAR(*pausing.median_times_slower, 1, 0.02);
  EXPECT_NEAR(*pausing.times_slower, 1 + 400'000 / 210'000.0, 0.05);
  EXPECT_DOUBLE_EQ(pausing.evidence.get("time.slower").value(), *pausing.times_slower);
}

TEST(Report, FormatsUnits) {
  EXPECT_EQ(ratio_text(17838.68), "17839x");
  EXPECT_EQ(ratio_text(16.44), "16.4x");
  EXPECT_EQ(ratio_text(2.99), "2.99x");
  EXPECT_EQ(ratio_text(0.369), "0.37x");
  EXPECT_EQ(ratio_text(0.0538), "0.054x");
  EXPECT_EQ(duration_text(3140), "3.14 us");
  EXPECT_EQ(duration_text(16.9e6), "16.9 ms");
  EXPECT_EQ(duration_text(42), "42.0 ns");
  EXPECT_EQ(duration_text(-951e3), "-951.0 us");
  EXPECT_EQ(bytes_text(-2.5e6), "-2.50 MB");
  EXPECT_EQ(duration_text(2.5e9), "2.50 s");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(3.4e6), "3.40 MB");
}

}  // namespace
}  // namespace isochron::observe
