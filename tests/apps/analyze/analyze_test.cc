// `isochron analyze` as users run it: tables with gaps, ranks, phases and work, the output for a log, and
// series of few values. logs_test.cc tests how logs are read.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "apps/command.h"
#include "isochron/apps/analyze/read_times.h"
#include "isochron/apps/analyze/times/time_units.h"
#include "isochron/core/base/rng.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Analyze : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.path() / name) << content;
    return (folder_.path() / name).string();
  }
  static std::string sample(const std::string& name) {
    return ISOCHRON_SOURCE_DIR "/tests/apps/logs/" + name + ".log";
  }

  TempFolder folder_;
};

TEST(TimeUnits, NamesOfColumnsTellThem) {
  const struct {
    const char* name;
    double ns;  // nanoseconds of the value 8 in this unit; 0: the name has no unit
  } cases[] = {{"step_ms", 8e6},
               {"time (s)", 8e9},
               {"seconds", 8e9},
               {"Time [us]", 8e3},
               {"duration-ns", 8},
               {"ms_per_step", 8e6},
               {"sec/it", 8e9},
               {"it/s", 1.25e8},
               {"samples_per_second", 1.25e8},
               {"Images per sec", 1.25e8},
               {"steps/min", 7.5e9},
               {"loss", 0},
               {"items", 0},
               {"nanoseconds", 8},
               {"epoch_hour", 28.8e12},
               {"a millisecond", 8e6},
               {"files/kind", 0},
               {"perf/ms_per_step", 8e6},
               {"train/s_per_step", 8e9},
               {"train/ms/step", 8e6},
               {"train/step_time_ms", 8e6},
               {"step_time/ms", 8e6},
               {"time/s", 8e9},
               {"step_s", 8e9},
               {"tok_ms", 8e6},
               {"tokens/s/gpu", 1.25e8},
               {"speed (it/s)", 1.25e8},
               {"perf/images/sec", 1.25e8},
               {"perf/samples_per_second", 1.25e8},
               {"train/ms", 0},
               {"TFLOP/s", 0},
               {"tok_s", 0},
               {"throughput/img_sec", 0},
               {"iters_min", 0}};
  for (const auto& [name, ns] : cases) {
    const auto unit = time_unit_of_name(name);
    ASSERT_EQ(unit.has_value(), ns > 0) << name;
    if (unit) {
      EXPECT_DOUBLE_EQ(unit->time_ns(8), ns) << name;
    }
  }
}

TEST(TimeUnits, WhatIsTimedMayFollowASpace) {
  const auto unit = time_unit("s/ steps");
  ASSERT_TRUE(unit.has_value());
  EXPECT_EQ(unit->of, "steps");
}

TEST(TimeUnits, RatesAreKnownByWhatFollows) {
  for (const char* text : {"it/s", " images/sec, loss", "steps/second]", "MB/s", "/s"})
    EXPECT_TRUE(begins_as_rate(text)) << text;
  for (const char* text : {"", "s", "s/it", "ms/step", " and 5it/s", "it", "a/b"})
    EXPECT_EQ(begins_as_rate(text), false) << text;
}

TEST(TimeUnits, DigitsTellWhatIsRounded) {
  EXPECT_DOUBLE_EQ(written_resolution("5"), 0.2);
  EXPECT_DOUBLE_EQ(written_resolution("250"), 0.004);
  EXPECT_DOUBLE_EQ(written_resolution("2.50"), 0.004);
  EXPECT_DOUBLE_EQ(written_resolution("0.5"), 0.2);
  EXPECT_DOUBLE_EQ(written_resolution("+0.5"), 0.2);
  EXPECT_DOUBLE_EQ(written_resolution("-2.50"), 0.004);
  EXPECT_DOUBLE_EQ(written_resolution("5e-1"), 0.2);
  EXPECT_DOUBLE_EQ(written_resolution("2.50E+3"), 0.004);
  for (const char* text : {"", "0", "0.0", "x", "1x", "0e3", "1e", "inf"})
    EXPECT_EQ(written_resolution(text), 0) << text;
}

TEST_F(Analyze, GrowthWithinOneRoundingUnitIsntFlat) {
  std::string log;  // from 2.4 s to 3.3 s per step, which Keras prints as 2 s and 3 s
  for (int epoch = 1; epoch <= 40; ++epoch) {
    const double step = 2.4 + 0.9 * (epoch - 1) / 39;
    log +=
        fmt::format("Epoch {}/40\n100/100 - {:.0f}s - {:.0f}s/step - loss: 0.1\n", epoch, 100 * step, step);
  }
  EXPECT_THAT(run_isochron("analyze " + write("keras.log", log)),
              Ends(0, "most values are the same number, which is rounded to 3"));
}

TEST_F(Analyze, RoundedTimesThatAreAllTheSameArentFlat) {
  std::string coarse = "step_ms\n", fine = "step_ms\n";
  for (int i = 0; i < 100; ++i) {
    coarse += "5\n";
    fine += "5.00\n";
  }
  EXPECT_THAT(run_isochron("analyze " + write("coarse.csv", coarse)),
              Ends(0, "most values are the same number, which is rounded to 20 %"));
  EXPECT_THAT(run_isochron("analyze " + write("fine.csv", fine) + " --require-flat"), Ends(0, "flat"));
  std::string log;
  for (int i = 0; i < 100; ++i) log += "waited 5 ms\n";
  EXPECT_THAT(run_isochron("analyze " + write("log", log) + " --pattern 'waited ([0-9]) (ms)' --unit s"),
              Ends(2, "line 1 has 'ms'; leave --unit out"));
  EXPECT_THAT(run_isochron("analyze " + write("log", log) + " --pattern 'waited ([0-9]) (ms)'"),
              Ends(0, "inconclusive"));
}

TEST_F(Analyze, AFewRoundedTimesAreToldFromTheirDistances) {
  std::string table = "step_ms\n";
  Rng rng(3);
  for (int i = 0; i < 2000; ++i)  // grows by 20 %, in steps of 10 ms
    table += fmt::format("{:.0f}\n", 10 * std::round((45.5 + 9.0 * i / 2000 + rng.normal()) / 10));
  const auto found = run_isochron("analyze " + write("coarse.csv", table) + " --require-flat");
  EXPECT_THAT(found, Ends(1, "inconclusive"));
  EXPECT_THAT(found, Ends(1, "times are rounded to 20 % of their size"));
}

TEST_F(Analyze, ZerosThatWereLeftOutAreDigits) {
  std::string table = "step_s\n", lines;
  for (int i = 0; i < 100; ++i) {  // as Python prints 0.50, 0.49, 0.51
    const char* const seconds = i % 5 > 1 ? "0.5" : i % 5 == 1 ? "0.49" : "0.51";
    table += fmt::format("{}\n", seconds);
    lines += fmt::format("epoch {} took {} s\n", i, seconds);
  }
  for (const auto& path : {write("zeros.csv", table), write("zeros.log", lines)}) {
    const auto found = run_isochron("analyze " + path + " --require-flat");
    EXPECT_THAT(found, Ends(0, "flat"));
    EXPECT_THAT(found, Ends(0, "times are rounded to 2 % of their size"));
  }
}

TEST_F(Analyze, ExactTimesAreNotCalledRounded) {
  const auto exact = run_isochron(
      "analyze " + write("exact.csv", "epoch_s\n10.1234\n12.3871\n15.2210\n18.4412\n22.0317\n26.9100\n"));
  EXPECT_EQ(exact.text.find("rounded"), std::string::npos) << exact.text;
  std::string table = "step_s\n";
  for (int i = 0; i < 100; ++i) table += i == 40 ? "9.00\n" : "5.00\n";
  const auto once = run_isochron("analyze " + write("once.csv", table) + " --require-flat");
  EXPECT_THAT(once, Ends(0, "flat"));
  EXPECT_EQ(once.text.find("rounded"), std::string::npos) << once.text;
}

TEST_F(Analyze, RowsOutOfOrderAreRefused) {
  std::string shuffled = "Step,step_ms\n", epochs = shuffled;
  for (int i = 0; i < 100; ++i) {
    shuffled += fmt::format("{},{}\n", i * 37 % 100, 5 + i % 3);
    epochs += fmt::format("{},{}\n", i % 20, 5 + i % 3);
  }
  EXPECT_THAT(run_isochron("analyze " + write("shuffled.csv", shuffled) + " --column step_ms"),
              Ends(3, "the rows aren't in the order of the run: column 'Step' falls"));
  EXPECT_THAT(run_isochron("analyze " + write("epochs.csv", epochs) + " --column step_ms"), Ends(0, "flat"));
}

TEST_F(Analyze, RowsWithoutAValueCanBeLeftOut) {
  const std::string table = "step,step_ms\n0,\n1,5\n\n2,NaN\n3,6\n4";
  const auto read = [&](const std::string& content, bool allow) {
    return read_times({.path = write("t.csv", content), .column = "step_ms", .allow_gaps = allow});
  };
  const IterationTimes times = read(table, true);
  EXPECT_THAT(times.series[0].ns, ElementsAre(5e6, 6e6));
  EXPECT_THAT(times.notes, ElementsAre("left out: 4 rows without a value"));
  EXPECT_ERROR(read(table, false), ErrorCode::kBadFormat, "line 2] no value, expected a time; --allow-gaps");
  EXPECT_ERROR(
      read("step,step_ms\n1,5\n2", false), ErrorCode::kBadFormat,
      "line 3] the last row is cut off: 1 of 2 columns and no newline. The file may still be written to");
  EXPECT_ERROR(read("step,step_ms\n1,5\n2\n", false), ErrorCode::kBadFormat,
               "line 3] expected 2 columns, got 1");
  EXPECT_ERROR(read("step,step_ms\n1,5\n2\n3,4\n", true), ErrorCode::kBadFormat,
               "line 3] expected 2 columns, got 1");
  EXPECT_THAT(read("step,step_ms\n1,5\n2,6", false).series[0].ns, ElementsAre(5e6, 6e6))
      << "no newline at the end";
  EXPECT_ERROR(read("step,step_ms\n1,\n2,nan\n", true), ErrorCode::kBadFormat, "has no rows of data");
}

TEST_F(Analyze, TimeForAsMuchWorkIsJudged) {
  const std::string table = "tokens,ms\n100,1\n400,4\n200,2\n400,8\n";
  const IterationTimes times = read_times({.path = write("t.csv", table), .column = "ms", .work = "tokens"});
  EXPECT_THAT(times.series[0].ns, ElementsAre(3e6, 3e6, 3e6, 6e6)) << "as if each had 300";
  EXPECT_EQ(times.each, "the time per 300 of 'tokens', which is the median of the rows");
  for (const char* work : {"0", "-1", "many", "inf"}) {
    const std::string bad = write("bad.csv", "tokens,ms\n100,1\n" + std::string(work) + ",4\n");
    EXPECT_ERROR(read_times({.path = bad, .column = "ms", .work = "tokens"}), ErrorCode::kBadFormat,
                 "line 3] expected an amount of work above 0 in column 'tokens'");
  }
  EXPECT_ERROR(read_times({.path = write("t.csv", table), .column = "ms", .work = "rows"}),
               ErrorCode::kBadFormat, "no column 'rows'");
}

/// Training rows of three processes, the last of which slows down, and their validation rows.
std::string table_of_ranks() {
  Rng rng(3);
  std::string table = "phase,rank,step_ms\n";
  for (int i = 0; i < 400; ++i) {
    for (int rank = 0; rank < 3; ++rank) {
      const double growth = rank == 2 ? 0.3 * i / 400 : 0;
      table += fmt::format("train,{},{:.4f}\n", rank, 20 * (1 + growth) * (1 + 0.01 * rng.normal()));
      if (i % 10 == 0) table += fmt::format("val,{},5\n", rank);
    }
  }
  return table;
}

TEST_F(Analyze, EachRankIsJudgedAndTheWorstDecides) {
  const std::string columns = " --column step_ms --rank rank --phase-column phase ";
  const std::string file = write("ranks.csv", table_of_ranks()), json = (folder_.path() / "j").string();
  const Outcome outcome = run_isochron("analyze " + file + columns + "--json " + json);
  EXPECT_THAT(
      outcome.text,
      AllOf(HasSubstr("400 iterations (phase 'train'), median"), HasSubstr("rank 0: 400 iterations"),
            HasSubstr("the worst is rank 2:\ngrowing: +"),
            HasSubstr("other phases (choose one with --phase): 'val' (120 values, median 5.00 ms, flat)"),
            HasSubstr("can't tell whether the program or the machine slowed")));
  const nlohmann::json result = read_json(json);
  EXPECT_EQ(result["time"]["kind"], "growing");
  ASSERT_EQ(result["source"]["ranks"].size(), 3u);
  EXPECT_EQ(result["source"]["ranks"][0]["kind"], "flat");
  EXPECT_EQ(result["source"]["ranks"][2]["rank"], "2");
  EXPECT_NEAR(result["source"]["ranks"][2]["change"].get<double>(), 0.3, 0.05);
  EXPECT_EQ(result["source"]["other_phases"][0]["name"], "val");
  EXPECT_THAT(run_isochron("analyze " + file + columns + "--require-flat"), Ends(1, "not found to be flat"));
  EXPECT_THAT(run_isochron("analyze " + file + columns + "--phase val"),
              Ends(0, "40 iterations (phase 'val')"));
  EXPECT_THAT(run_isochron("analyze " + file + columns + "--phase test"),
              Ends(2, "the phases are: train, val"));
}

TEST_F(Analyze, ARankWithoutANameIsOneToo) {
  std::string table = "rank,ms\n";
  for (int i = 0; i < 100; ++i) table += fmt::format("{},{}\n", i % 2 == 0 ? "" : "1", 5 + i % 3);
  const std::string json = (folder_.path() / "j").string();
  EXPECT_THAT(run_isochron("analyze " + write("t.csv", table) + " --column ms --rank rank --json " + json),
              Ends(0, "rank (none): 50 iterations"));
  EXPECT_EQ(read_json(json)["source"]["ranks"].size(), 2u);
}

TEST_F(Analyze, NamesThatBeginAsNumbersDoAreNames) {
  const auto times = [&](const std::string& content, const std::string& column = "") {
    return read_times({.path = write("t.csv", content), .column = column}).series[0].ns;
  };
  EXPECT_THAT(times("inference_ms\n10\n12\n"), ElementsAre(10e6, 12e6));
  EXPECT_THAT(times("nanoseconds\n10\n12\n"), ElementsAre(10, 12));
  EXPECT_THAT(times("info,step_ms\n1,10\n2,12\n", "step_ms"), ElementsAre(10e6, 12e6));
  EXPECT_THAT(times("Inf_ms;x\n10;1\n12;2\n", "Inf_ms"), ElementsAre(10e6, 12e6));
  EXPECT_THAT(times("1st_step_ms,x\n10,1\n12,2\n", "1st_step_ms"), ElementsAre(10e6, 12e6));
  for (const char* first : {"2026-01-31 12:00:00", "12:30:05", "17/1000"}) {
    const std::string rows = fmt::format("{0},12.5\n{0},13.5\n", first);
    EXPECT_THAT(read_times({.path = write("t.csv", rows), .column = "1", .unit = "ms"}).series[0].ns,
                ElementsAre(12.5e6, 13.5e6))
        << first;
  }
}

TEST_F(Analyze, TimesOfHoursAreJudgedAsShortOnesAre) {
  Rng rng(3);
  std::string seconds = "epoch_s\n", hours = "epoch_h\n";
  for (int i = 0; i < 100; ++i) {
    const double time = (3 + 0.02 * i) * (1 + 0.005 * rng.normal());
    seconds += fmt::format("{:.6f}\n", time);
    hours += fmt::format("{:.6f}\n", time);
  }
  const auto judged = [&](const std::string& table) {
    const std::string json = (folder_.path() / "j").string();
    EXPECT_EQ(run_isochron("analyze " + write("t.csv", table) + " --json " + json).status, 0);
    return read_json(json);
  };
  const nlohmann::json of_seconds = judged(seconds), of_hours = judged(hours);
  EXPECT_EQ(of_hours["time"]["kind"], "growing");
  EXPECT_NEAR(of_hours["time"]["change"].get<double>(), of_seconds["time"]["change"].get<double>(), 0.005);
  for (const char* of : {"min", "p50", "p99", "max"})
    EXPECT_NEAR(of_hours["duration_ns"][of].get<double>() / of_seconds["duration_ns"][of].get<double>(), 3600,
                15)
        << of;
  EXPECT_NEAR(of_seconds["seconds"].get<double>(), of_seconds["duration_ns"]["mean"].get<double>() * 100e-9,
              1e-6)
      << "all of them, the first too";
}

TEST_F(Analyze, AFewGrowingValuesHaveACauseAndACost) {
  std::string table = "epoch_s\n";
  for (int i = 0; i < 30; ++i) table += fmt::format("{:.4f}\n", 10 * std::pow(1.03, i));
  const std::string json = (folder_.path() / "j").string();
  EXPECT_THAT(run_isochron("analyze " + write("t.csv", table) + " --json " + json), Ends(0, "growing: +"));
  const nlohmann::json result = read_json(json);
  EXPECT_GT(result["drift_seconds"].get<double>(), 50);
  EXPECT_EQ(result["causes"].size(), 1u);
}

TEST_F(Analyze, RanksAndPhasesAreAFew) {
  std::string table = "rank,ms\n";
  for (int i = 0; i < 5000; ++i) table += fmt::format("{},1\n", i);
  EXPECT_ERROR(read_times({.path = write("t.csv", table), .column = "ms", .rank = "rank"}),
               ErrorCode::kBadFormat, "more than 4096 phases and ranks");
}

TEST_F(Analyze, RatesOfATableAreInverted) {
  EXPECT_THAT(read_times({.path = write("t.csv", "epoch,it/s\n1,4\n2,5\n"), .column = "it/s"}).series[0].ns,
              ElementsAre(2.5e8, 2e8));
  EXPECT_THAT(read_times({.path = write("t.csv", "speed\n4\n5\n"), .unit = "it/s"}).series[0].ns,
              ElementsAre(2.5e8, 2e8));
  EXPECT_ERROR(read_times({.path = write("t.csv", "it/s\n4\n0\n")}), ErrorCode::kBadFormat,
               "line 3] expected a rate above 0, got 0");
}

TEST_F(Analyze, ATableIsToldFromALog) {
  const auto program = [&](const std::string& content) {
    return read_times({.path = write("file", content), .unit = ""}).program;
  };
  EXPECT_EQ(program("time_ms\n5\n"), "");
  EXPECT_EQ(program("\"time_ms\"\n\"5\"\n"), "");
  EXPECT_EQ(program("Epoch 1, Time: 1.5 s\nEpoch 2, Time: 1.6 s\n"), "lines of a loop");
  EXPECT_EQ(program("Epoch 1/2\n32/32 - 1s 9ms/step\n"), "Keras");
  EXPECT_EQ(program("Epoch 1, Time: 1.5 s"), "lines of a loop");
  EXPECT_EQ(program("Epoch 1, 0.5, Time: 1.5 s\nEpoch 2, 0.4, Time: 1.6 s\n"), "lines of a loop");
  EXPECT_ERROR(program("a;b\n1;2\n"), ErrorCode::kInvalidArgument, "has several columns (a, b)");
  EXPECT_ERROR(program("5\n6\n"), ErrorCode::kInvalidArgument, "the unit of the times is unknown");
}

TEST_F(Analyze, AHeaderHasAWordAboveANumber) {
  const auto times = [&](const std::string& content, const std::string& column) {
    return read_times({.path = write("file", content), .column = column, .unit = "ms"}).series.at(0).ns;
  };
  using testing::ElementsAre;
  EXPECT_THAT(times("train,12.5\ntrain,12.6\n", "1"), ElementsAre(12.5e6, 12.6e6));
  EXPECT_THAT(times("step,0,1\n7,12.5,3\n8,12.6,3\n", "0"), ElementsAre(12.5e6, 12.6e6));
  EXPECT_THAT(times(",0\n0,12.5\n1,12.6\n", "0"), ElementsAre(12.5e6, 12.6e6)) << "a series of pandas";
  EXPECT_THAT(times("\"which\",\"0\"\n\"7\",\"12.5\"\n", "0"), ElementsAre(12.5e6));
  EXPECT_THAT(times("1st step,ms\n3,12.5\n", "ms"), ElementsAre(12.5e6));
  EXPECT_THAT(times("step,0.5,0.9\n3,12.5,13\n", "0.5"), ElementsAre(12.5e6)) << "quantiles";
  EXPECT_THAT(times(",0\n2026-01-31 12:00:00,12.5\n", "0"), ElementsAre(12.5e6)) << "by time";
  EXPECT_THAT(times("name,2,4\nrun a,12.5,13\n", "2"), ElementsAre(12.5e6));
  EXPECT_THAT(times("time,1\n12:00:00,12.5\n", "1"), ElementsAre(12.5e6));
  for (const char* gap : {"", "N/A", "None", "-"}) {
    EXPECT_THAT(times(fmt::format("0,12.5,{}\n1,12.6,0.33\n", gap), "1"), ElementsAre(12.5e6, 12.6e6)) << gap;
  }
  EXPECT_THAT(times("2026-01-31,12.5,ok\n2026-01-31,12.6,0\n", "1"), ElementsAre(12.5e6, 12.6e6));
  EXPECT_THAT(times("train,12\ntrain,13\n", "1"), ElementsAre(12e6, 13e6));
  EXPECT_THAT(times("train,12\nvalid,13\n", "1"), ElementsAre(12e6, 13e6));
  EXPECT_THAT(times("timestamp,step_ms,0.99\n2026-01-31,12.5,13\n", "step_ms"), ElementsAre(12.5e6));
  EXPECT_THAT(times("2026-01-31 12:00:00,12.5\n2026-01-31 12:00:01,12.6\n", "1"),
              ElementsAre(12.5e6, 12.6e6));
  EXPECT_ERROR(times("train,12.5\ntrain,12.6\n", ""), ErrorCode::kInvalidArgument,
               "has several columns (train, 12.5) and no header; they are numbered 0 to 1; name the one");
}

TEST_F(Analyze, StandardInputNeedsNoDash) {
  const std::string found =
      "standard input: 12 values (Keras, phase 'Epoch'), each the mean time of a step over a progress bar of "
      "20";
  EXPECT_THAT(run_isochron("analyze < " + sample("keras3")), Ends(0, found));
  EXPECT_THAT(run_isochron("analyze - < " + sample("keras3")), Ends(0, found));
  EXPECT_THAT(
      run_isochron("--version > /dev/null; cat " + sample("keras3") + " | " ISOCHRON_COMMAND " analyze"),
      Ends(0, found));
  EXPECT_THAT(run_isochron("analyze --column step_ms < " + write("t.csv", "step_ms,loss\n5,1\n5,1\n")),
              Ends(0, "standard input: 2 iterations, median"));
}

TEST_F(Analyze, SaysOfALogWhatItsValuesHide) {
  EXPECT_THAT(run_isochron("analyze " + sample("keras2")),
              Ends(0, "note: times are rounded to 20 % of their size"));
  EXPECT_THAT(run_isochron("analyze " + sample("keras2")).text,
              AllOf(HasSubstr("inconclusive"), HasSubstr("most values are the same number"),
                    HasSubstr("note: Keras counts validation")));
  const Outcome bar = run_isochron("analyze " + sample("tqdm"));
  EXPECT_THAT(bar, Ends(0,
                        "148 values (tqdm, phase 'bar'), each the time of an iteration as shown by an update "
                        "of the progress bar"));
  EXPECT_THAT(bar.text, AllOf(HasSubstr("growing: +"),
                              HasSubstr("note: each value is an average over the latest steps")));
}

TEST_F(Analyze, TenEpochsGetAVerdict) {
  const std::string page = (folder_.path() / "page.html").string();
  const Outcome outcome = run_isochron("analyze " + sample("loop_epochs") + " --out " + page);
  EXPECT_THAT(outcome, Ends(0, "growing: +65.58 %"));
  EXPECT_THAT(
      outcome.text,
      AllOf(HasSubstr("10 values (lines of a loop, phase 'Epoch Loss Time'), each the time of an epoch"),
            HasSubstr("note: fewer than 64 values are judged by their trend, assuming that they are "
                      "independent; the first is left out as warm-up")));
  std::ifstream file(page);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, AllOf(HasSubstr("10 values (lines of a loop"), HasSubstr("growing"),
                          HasSubstr("fewer than 64 values")));
  const std::string few = write("few.csv", "time_s\n9\n1.01\n1.00\n1.02\n1.01\n1.00\n1.01\n1.02\n1.01\n");
  EXPECT_THAT(run_isochron("analyze " + few + " --require-flat"), Ends(0, "flat: "));
  EXPECT_THAT(run_isochron("analyze " + few + " --warmup 5"),
              Ends(0, "too few values: 4, and 5 are needed\nabout 6 iterations"));
}

TEST_F(Analyze, SmoothedValuesThatAreFewAreTakenApart) {
  EXPECT_THAT(run_isochron("analyze " + sample("tqdm_slow")),
              Ends(0, "judged from every fifth value, because neighbors share iterations"));
}

TEST_F(Analyze, TimesSinceTheStartMayBeginWithZero) {
  std::string table = "time_ms\n", log;
  for (int i = 0; i < 20; ++i) {
    table += fmt::format("{}\n", 100 * i);
    log += fmt::format("at {} ms\n", 100 * i);
  }
  const std::string of_table = write("t.csv", table), of_log = write("t.log", log);
  for (const std::string& from : {of_table, of_log + " --pattern 'at ([0-9]+) (ms)'"}) {
    EXPECT_THAT(run_isochron("analyze --elapsed " + from), Ends(0, "19 iterations, each the difference"));
    EXPECT_THAT(run_isochron("analyze --no-elapsed " + from), Ends(3, "expected a time above 0, got 0"));
  }
}

TEST_F(Analyze, OptionsThatDontGoTogetherAreRefused) {
  const std::string log = sample("keras3");
  for (const char* options :
       {"--format keras --column a", "--format keras --pattern '(1)'", "--pattern '(1)' --phase a",
        "--pattern '(1)' --rank a", "--allow-gaps --format tqdm"})
    EXPECT_THAT(run_isochron("analyze " + log + " " + options), Ends(2, "excludes")) << options;
  EXPECT_THAT(run_isochron("analyze " + log + " --format none"), Ends(2, "none not in {keras,"));
  EXPECT_THAT(run_isochron("analyze --help"), Ends(0, "python train.py 2>&1 | isochron analyze"));
}

}  // namespace
}  // namespace isochron::apps
