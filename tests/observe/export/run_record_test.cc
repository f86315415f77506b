#include "isochron/observe/export/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/page.h"
#include "observe/statistics/simulated_clock.h"
#include "observe/statistics/synthetic.h"
#include "support/temp_folder.h"

namespace isochron::observe {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

/// A run with everything: two classes, phases, spikes with labels, gauges, events, a reference kernel.
RunData some_run(double growth = 0) {
  static int64_t level;
  level = 5;
  Recorder recorder({.classes = 2,
                     .sample_interval_ns = 1000,
                     .timing_share = 0,
                     .heap_allocations = [] { return int64_t{7}; },
                     .gauges = {{"queue", [](void*) { return level; }}},
                     .clock = simulated_now_ns});
  emit({EventKind::kTrace, "step", "traced", 0, 1'000'000, "f32(8, 100)", "f32(32, 100)"});
  emit({EventKind::kCheckpoint, "cp-1", "written", 0, 2'000'000});
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    const IterationScope iteration(recorder, i % 5 == 4);
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      spend(std::llround((100'000 + 2'000 * rng.normal()) * (1 + growth * i / 20'000)));
    }
    if (i % 100 == 99) {
      const PhaseScope save(recorder, Phase::kCheckpoint, "saving \"all\"");
      spend(500'000);
    }
    ++level;
  }
  ReportOptions options;
  options.time.bound = 0.03;
  options.facts.set("weights.count", 12);
  return run_data(recorder, "a run", options);
}

RunRecord some_record() {
  RunRecord record{.title = "A title", .settings = {{"--batch", "32"}, {"model", "m"}}, .parts = {}};
  Plot plot{.title = "p", .x_label = "x", .y_label = "y", .log_y = true};
  plot.series.push_back(
      {.name = "s", .x = {1, 2, 3}, .y = {1, std::numeric_limits<double>::quiet_NaN(), 4}, .dashed = true});
  plot.marks.push_back({.x = 2, .label = "a mark"});
  record.parts.push_back(
      {.heading = "First",
       .blocks = {Paragraph{Paragraph::Style::kResult, "it <worked>"},
                  Paragraph{Paragraph::Style::kCode, "a\n  b"},
                  Table{"numbers", {"what", "n"}, {{"own", "1"}, {"other", "2"}}, 0, "one is less than two"},
                  plot}});
  record.parts.push_back({.heading = "The run", .blocks = {}, .run = some_run()});
  return record;
}

TEST(RunRecord, GivesTheSameReportAndPageAfterAFile) {
  const TempFolder folder;
  const RunRecord record = some_record();
  write_run_record(folder.path() / kRunRecordFile, record);
  const RunRecord again = read_run_record(folder.path());
  EXPECT_EQ(to_json(again), to_json(record));
  const RunReport before = make_report(*record.parts[1].run), after = make_report(*again.parts[1].run);
  const auto all_but_times = [](const RunReport& report) {
    ordered_json json = ordered_json::parse(to_json(report));
    for (auto& retrace : json["retraces"]) retrace.erase("at_s");  // rounded
    return json;
  };
  EXPECT_EQ(all_but_times(before), all_but_times(after));
  EXPECT_EQ(to_csv(before), to_csv(after));
  EXPECT_EQ(after.time.bound, 0.03);
  EXPECT_DOUBLE_EQ(after.evidence.get("weights.count").value_or(0), 12);
  EXPECT_EQ(after.spikes.owner_name(), "saving \"all\"");
  EXPECT_EQ(after.spikes.period->length, 100);
}

TEST(RunRecord, PageHoldsBlocksAndTheRun) {
  const std::string page = record_page(some_record());
  for (const char* text :
       {"<h2>First</h2>", "it &lt;worked&gt;", "<pre>a\n  b</pre>", "<tr class=\"own\"><td>own</td>",
        "<h2>The run</h2>", "<p>one is less than two</p>", "The time of an iteration is", "f32(32, 100)",
        "a mark", "previous signature", "1 checkpoints were written", "Spikes by their owner"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(RunRecord, APlotOfSpikesNamesTheMostFrequentOwners) {
  RunData data = some_run();
  ASSERT_GT(data.recent_spikes.size(), 30u);
  for (size_t i = 0; i < 21; ++i) data.recent_spikes[i].label = fmt::format("owner {}", i % 6);
  data.largest_spikes.clear();
  const auto legend = [&] {
    RunRecord record{.title = "A title", .settings = {}, .parts = {}};
    record.parts.push_back({.heading = "The run", .blocks = {}, .run = data});
    const std::string page = record_page(record);
    std::vector<std::string> names;
    for (int i = 0; i < 6; ++i) {
      std::string name = fmt::format("owner {}", i);
      if (page.find(name + "<") != std::string::npos) names.push_back(std::move(name));
    }
    if (page.find("others<") != std::string::npos) names.push_back("others");
    return names;
  };
  EXPECT_THAT(legend(), testing::ElementsAre("owner 0", "owner 1", "owner 2", "others"));
  for (size_t i = 0; i < 21; ++i) data.recent_spikes[i].label = fmt::format("owner {}", i % 4);
  EXPECT_THAT(legend(), testing::ElementsAre("owner 0", "owner 1", "owner 2", "owner 3"));
}

TEST(RunRecord, GrowthIsCounted) {
  const RunData even = some_run(), grown = some_run(0.5);
  EXPECT_FALSE(make_report(even).drift_seconds.has_value());
  const RunReport report = make_report(grown);
  ASSERT_EQ(report.time.kind, Flatness::kGrowing);
  // From 1 to 1.5 of 100 us over 20,000 steps: 0.5 s more than at first; the first tenth is 2.5 % up itself.
  ASSERT_TRUE(report.drift_seconds.has_value());
  EXPECT_NEAR(*report.drift_seconds, 0.45, 0.02);
  EXPECT_THAT(summary_text({&report, 1}), HasSubstr("the growth cost"));
}

TEST(RunRecord, TurnsBesideATwinDecide) {
  RunRecord record = some_record();
  RunData& run = *record.parts[1].run;
  Rng rng(1);
  run.turns = {synthetic::make_pairs(100, 60, 0, 1, rng), synthetic::make_pairs(100, 60, 0.5, 1, rng)};
  const RunRecord read = parse_run_record(to_json(record), "x.json");
  const RunData& again = *read.parts[1].run;
  ASSERT_EQ(again.turns.after.size(), 100u);
  EXPECT_EQ(again.turns.after[7].loop.median_ns, run.turns.after[7].loop.median_ns);
  EXPECT_EQ(again.turns.before[7].twin.iterations, run.turns.before[7].twin.iterations);
  const RunReport report = make_report(again);
  EXPECT_EQ(report.time.kind, Flatness::kGrowing);
  EXPECT_THAT(report.time.reason, HasSubstr("in 100 and 100 pairs of turns"));
  // A record from an earlier version has no turns.
  ordered_json json = ordered_json::parse(to_json(record));
  json["parts"][1]["run"].erase("turns");
  EXPECT_TRUE(parse_run_record(json.dump(), "x.json").parts[1].run->turns.after.empty());
}

TEST(RunRecord, HoldsTheTimesOfOtherRanks) {
  RunRecord record = some_record();
  RunData& run = *record.parts[1].run;
  run.ranks = RankData{.own = 1, .ranks = {{"alpha", 1, -1, 2}, {"beta", 3, 4, 5}}, .windows = {}};
  for (int64_t w = 0; w < 16; ++w)
    run.ranks->windows.push_back({10 * w, 10 * w + 9, 10, 20'000, 500, {{10'000, 0}, {20'000, 9'000}}});
  const RunRecord again = parse_run_record(to_json(record), "x.json");
  ASSERT_TRUE(again.parts[1].run->ranks);
  EXPECT_EQ(ranks_json(*again.parts[1].run->ranks), ranks_json(*run.ranks));
  const RunReport report = make_report(*again.parts[1].run);
  ASSERT_THAT(report.causes, ::testing::Contains(::testing::Field(&Cause::name, "a straggling rank")));
  EXPECT_THAT(summary_text({&report, 1}),
              HasSubstr("rank 1 of 2 on beta: its work takes 2 times as long as that of the others"));
  EXPECT_THAT(record_page(again), HasSubstr("<h3>Ranks</h3>"));
}

TEST(RunRecord, ReadsRunsOfBeforePhasesOfRanks) {
  RunRecord record = some_record();
  record.parts[1].run->totals.phase_ns.back() = 77;
  ordered_json json = ordered_json::parse(to_json(record));
  ordered_json& run = json["parts"][1]["run"];
  run.erase("ranks");
  const auto shorten = [](ordered_json& phases) {
    phases.erase(8);
    phases.erase(7);
  };
  for (const char* name : {"phase_ns", "between_phase_ns", "spikes_by_owner"}) shorten(run["totals"][name]);
  for (ordered_json& window : run["classes"][0]["windows"]) shorten(window["phase_ns"]);
  const RunData again = *parse_run_record(json.dump(), "x.json").parts[1].run;
  EXPECT_EQ(again.totals.phase_ns, record.parts[1].run->totals.phase_ns);
  EXPECT_FALSE(again.ranks);
}

TEST(RunRecord, RefusesWhatNoRunWrote) {
  const std::string good = to_json(some_record());
  const auto refuses = [&](const std::function<void(ordered_json&)>& change, const char* text) {
    ordered_json json = ordered_json::parse(good);
    change(json);
    try {
      parse_run_record(json.dump(), "x.json");
      ADD_FAILURE() << "accepted; expected: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadFormat);
      EXPECT_THAT(error.what(), HasSubstr("x.json"));
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  const auto run = [](ordered_json& json) -> ordered_json& { return json["parts"][1]["run"]; };
  refuses([](auto& json) { json["format"] = "isochron run 2"; }, "format");
  refuses([](auto& json) { json.erase("title"); }, "title");
  refuses([&](auto& json) { run(json)["totals"]["iterations"] = 1.5; }, "'iterations'");
  refuses([&](auto& json) { run(json)["totals"]["iterations"] = -1; }, "'iterations'");
  refuses([&](auto& json) { run(json)["totals"]["total_ns"] = 1e300; }, "'total_ns'");
  refuses([&](auto& json) { run(json)["totals"]["phase_ns"].push_back(0); }, "'phase_ns'");
  refuses([&](auto& json) { run(json)["classes"] = ordered_json::array(); }, "no class");
  refuses([&](auto& json) { run(json)["turns"]["before"] = {{1, 2, 3}}; }, "six numbers");
  refuses([&](auto& json) { run(json)["turns"]["after"] = {{1, 2, 3, 4, 5, 0}}; }, "impossible time");
  refuses([&](auto& json) { run(json)["classes"][0]["windows"][3]["quantiles_ns"][1] = 0; }, "ascend");
  refuses([&](auto& json) { run(json)["classes"][0]["windows"][3]["last"] = -5; }, "'last'");
  refuses([&](auto& json) { run(json)["series"][0]["values"].push_back(1); }, "samples");
  refuses([&](auto& json) { run(json)["series"][0]["values"][0] = nullptr; }, "expected a finite number");
  refuses(
      [&](auto& json) {
        run(json)["sample_iterations"] = ordered_json::array();
        for (ordered_json& series : run(json)["series"]) series["values"] = ordered_json::array();
      },
      "has no value");
  refuses([&](auto& json) { run(json)["spike_factor"] = 1; }, "'spike_factor'");
  refuses([&](auto& json) { run(json)["totals"]["total_ns"] = (int64_t{1} << 62) + 1; }, "'total_ns'");
  refuses(
      [&](auto& json) {
        for (ordered_json& window : run(json)["classes"][0]["windows"]) window["total_ns"] = int64_t{1} << 62;
      },
      "'total_ns' adds up");
  refuses([&](auto& json) { run(json)["recent_spikes"][0]["owner"] = "nobody"; }, "nobody");
  refuses([&](auto& json) { run(json)["events"][0]["kind"] = "wedding"; }, "wedding");
  refuses([&](auto& json) { json["parts"][0]["blocks"][2]["rows"][0].push_back("x"); }, "cells");
  refuses([&](auto& json) { json["parts"][0]["blocks"][2]["own_row"] = 2; }, "'own_row'");
  refuses([&](auto& json) { json["parts"][0]["blocks"][3]["series"][0]["x"].push_back(4); },
          "different lengths");
  refuses([&](auto& json) { json["parts"][0]["blocks"][0]["kind"] = "song"; }, "song");
  refuses([&](auto& json) { json["parts"][0]["blocks"][3]["series"][0]["colour"] = "\"><script>"; },
          "not a color");
  // Without its last newline it is whole.
  for (size_t size = 0; size + 1 < good.size(); size += good.size() / 50) {
    EXPECT_THROW(parse_run_record(good.substr(0, size), "cut"), Error);
  }
}

TEST(RunRecord, DeeplyNestedOnesAreRefused) {
  std::string text = to_json(some_record());
  constexpr size_t kLevels = 300'000;
  for (const char* key : {"\"unknown\":", "\"memory\":"}) {
    const std::string deep = std::string(key) + std::string(kLevels, '[') + std::string(kLevels, ']') + ",";
    std::string nested = text;
    nested.insert(nested.find("\"heading\""), deep);
    try {
      parse_run_record(nested, "x.json");
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadFormat);
      EXPECT_THAT(error.what(), HasSubstr("nested more than 64 levels deep"));
    }
  }
}

TEST(RunRecord, ARunOfYearsComesBackAsItWas) {
  RunRecord record = some_record();
  RunData& run = *record.parts[1].run;
  constexpr int64_t kYearsNs = (int64_t{1} << 61) + 1;  // 73 years, not a double
  run.totals.total_ns = run.totals.elapsed_ns = kYearsNs;
  run.classes[0].windows[0].total_ns = kYearsNs;
  run.options.levels.seed = ~uint64_t{0};
  const RunRecord again = parse_run_record(to_json(record), "x.json");
  EXPECT_EQ(again.parts[1].run->totals.total_ns, kYearsNs);
  EXPECT_EQ(again.parts[1].run->classes[0].windows[0].total_ns, kYearsNs);
  EXPECT_EQ(again.parts[1].run->options.levels.seed, ~uint64_t{0});
}

TEST(RunRecord, ThePageSaysThatThereWereNoSpikesOnlyIfThereWereNone) {
  const auto page_of = [](std::vector<double> us) {
    for (double& value : us) value *= 1000;
    return run_section(make_report(run_data(us, "few")));
  };
  std::vector<double> us(40, 100);
  EXPECT_THAT(page_of(us), HasSubstr("No iteration took more than twice the usual time"));
  us[3] = 1000;  // before the usual time is known
  EXPECT_THAT(page_of(us), Not(HasSubstr("No iteration took more")));
  EXPECT_THAT(page_of({100, 100, 1000, 100}), Not(HasSubstr("No iteration took more")));
  RunData data = run_data(std::vector<double>(40, 100'000), "few");
  data.spike_factor = 3.5;
  EXPECT_THAT(run_section(make_report(data)), HasSubstr("more than 3.5 times the usual time"));
}

TEST(EventLog, KeepsTheFirstAndTheNewestOfEachKind) {
  const EventLog log;
  for (int i = 0; i < 1000; ++i) {
    emit({EventKind::kTrace, std::to_string(i), "", 1000 + i, i});
    if (i % 100 == 0) emit({EventKind::kCheckpoint, "cp", "", 1000 + i, 5});
  }
  const EventRecords records = log.records();
  EXPECT_EQ(records.of(EventKind::kTrace).count, 1000);
  EXPECT_EQ(records.of(EventKind::kTrace).total_ns, 999 * 1000 / 2);
  EXPECT_EQ(records.of(EventKind::kTrace).longest_ns, 999);
  EXPECT_EQ(records.of(EventKind::kCheckpoint).count, 10);
  ASSERT_EQ(records.events.size(), EventLog::kFirst + EventLog::kNewest + 10);
  std::vector<std::string> traces;
  for (const Event& event : records.events) {
    if (event.kind == EventKind::kTrace) traces.push_back(event.name);
  }
  EXPECT_EQ(traces.front(), "0");
  EXPECT_EQ(traces[EventLog::kFirst], std::to_string(1000 - EventLog::kNewest));
  EXPECT_EQ(traces.back(), "999");
  for (size_t i = 1; i < records.events.size(); ++i) {
    EXPECT_LE(records.events[i - 1].time_ns, records.events[i].time_ns);
  }
}

}  // namespace
}  // namespace isochron::observe
