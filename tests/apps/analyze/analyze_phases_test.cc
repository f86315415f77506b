// What `isochron analyze` tells apart in a log or table: ranks, phases, several times in a line, and clocks.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "apps/analyze/log_fixture.h"
#include "apps/command.h"
#include "isochron/apps/analyze/logs/log_ranks.h"
#include "isochron/apps/analyze/read_times.h"
#include "isochron/apps/analyze/times/elapsed_times.h"
#include "isochron/core/base/rng.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class ToldApart : public LogFixture {
 protected:
  /// Noise of 2 %.
  double noise() { return 1 + 0.02 * rng_.normal(); }

  Rng rng_{1};
};

class RanksOfLines : public ToldApart, public testing::WithParamInterface<const char*> {};

TEST_P(RanksOfLines, AreJudgedByThemselves) {
  std::string log;
  for (int i = 0; i < 100; ++i) {
    for (int rank = 0; rank < 8; ++rank) {
      const double growth = rank == 7 ? 1 + 0.3 * i / 100 : 1;
      log += fmt::format(fmt::runtime(GetParam()), rank) +
             fmt::format("step {}: {:.2f} ms\n", i, 100 * growth * noise());
    }
  }
  const IterationTimes times = read(log);
  EXPECT_TRUE(times.by_rank);
  EXPECT_THAT(times.phase, HasSubstr("step"));
  ASSERT_THAT(times.series, SizeIs(8));
  EXPECT_EQ(times.series[7].rank, "7");
  EXPECT_THAT(times.series[7].ns, SizeIs(100));
  EXPECT_THAT(run_isochron("analyze " + write(log)), Ends(0, "the worst is rank 7:\ngrowing: +"));
  EXPECT_EQ(read(log, {.pattern = ": ([0-9.]+) (ms)"}).series.at(7).ns, times.series[7].ns);
}
INSTANTIATE_TEST_SUITE_P(
    All, RanksOfLines,
    testing::Values("{}: ", "[rank{}]: ", "[default{}]:", "[1,{}]<stdout>:", "[Rank {}] ", "rank={} ",
                    "[GPU{}] ", "(RayTrainWorker pid={}, ip=10.0.0.1) ",
                    "2026-01-02 10:11:12,123 INFO rank {}: ", "worker {} | ", "train-{}  | ",
                    "[pod/train-{}/main] ", "node{}: ", "[{}]<stdout>:", "cuda:{} "));

TEST_F(ToldApart, RanksWriteAtTheSameTime) {
  std::string epochs;  // whose number stands where a rank's would
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (int i = 1; i < 20; ++i)
      epochs += fmt::format("\r{}:  {}%|#   | {}/20 [00:01<00:02, 4.00it/s]", epoch, 5 * i, i);
  }
  EXPECT_FALSE(read(epochs).by_rank);
  EXPECT_THAT(read(epochs).series, SizeIs(1));
  std::string numbered, one;
  for (int i = 0; i < 100; ++i) {
    numbered += fmt::format("{}: step {}: 5.0 ms\n", i, i);
    one += fmt::format("[rank0]: step {}: 5.0 ms\n", i);
  }
  EXPECT_FALSE(read(numbered).by_rank) << "lines with numbers";
  EXPECT_FALSE(read(one).by_rank);
  EXPECT_THAT(read(one).series[0].ns, SizeIs(100));
}

TEST_F(ToldApart, RanksWithFewTimesAreCounted) {
  std::string log = "2: step 0: 9 ms\n";
  for (int i = 0; i < 20; ++i) log += fmt::format("0: step {0}: 5 ms\n1: step {0}: 6 ms\n", i);
  const IterationTimes times = read(log + "2: step 20: 9 ms\n10: starts\n");
  EXPECT_THAT(times.series, ElementsAre(Field(&TimeSeries::rank, "0"), Field(&TimeSeries::rank, "1")));
  std::string phases;
  for (int i = 0; i < 20; ++i) {
    phases += fmt::format("0: step {0}: 5 ms\n1: step {0}: 6 ms\n", i);
    if (i % 2 == 0) phases += fmt::format("0: epoch {} evaluation took 8 ms\n", i);
  }
  EXPECT_THAT(read(phases, {.phase = "epoch evaluation took"}).notes,
              Contains("1 rank with fewer than 5 times of this phase"));
}

TEST_F(ToldApart, LinesWithoutARankAreOneToo) {
  std::string log, bars;
  for (int i = 0; i < 20; ++i) {
    log += fmt::format(
        "train step {0}: {1} ms\n[rank0]: saved step {0} in 1 ms\n[rank1]: saved step {0} in 1 ms\n", i,
        100 + i % 2);
    for (int rank = 0; rank < 2; ++rank)
      bars += fmt::format("{}: \r{}%|## | {}/100 [00:01<00:02, 4.00it/s]\n", rank, i, i + 1);
  }
  const IterationTimes times = read(log);
  EXPECT_EQ(times.phase, "train step");
  EXPECT_THAT(times.series, ElementsAre(Field(&TimeSeries::rank, "(none)")));
  EXPECT_THAT(times.series[0].ns, SizeIs(20));
  EXPECT_THAT(read(bars).series, ElementsAre(Field(&TimeSeries::rank, "0"), Field(&TimeSeries::rank, "1")))
      << "a bar after a carriage return belongs to the line's rank";
  EXPECT_THAT(read(bars, {.pattern = ", ([0-9.]+)(it/s)"}).series, SizeIs(2));
}

TEST_F(ToldApart, ALineIsKnownWithoutItsRank) {
  const auto text = [](std::string_view line) {
    const auto found = rank_of_line(line);
    return found ? found->rank + "|" + found->text : "";
  };
  EXPECT_EQ(text("[rank12]: step 3: 4 ms"), "12|step 3: 4 ms");
  EXPECT_EQ(text("INFO [rank 3] step 3: 4 ms"), "3|INFO step 3: 4 ms");
  EXPECT_EQ(text("2026-01-02 10:11:12,123 INFO rank 3: step 3: 4 ms"),
            "3|2026-01-02 10:11:12,123 INFO step 3: 4 ms");
  EXPECT_EQ(text("[1,3]<stderr>: Epoch 1/2"), "3|Epoch 1/2");
  EXPECT_EQ(text("step 3: 4 ms"), "");
  EXPECT_EQ(text("Epoch 3: 4 ms"), "");
  EXPECT_EQ(text("12:30:05 step"), "");
}

TEST_F(ToldApart, AColumnCalledRankIsOne) {
  std::string table = "step,Rank,step_ms\n", unlike = "rank,step_ms\n";
  for (int i = 0; i < 100; ++i) {
    for (int rank = 0; rank < 4; ++rank)
      table += fmt::format("{},{},{:.2f}\n", i, rank, 100 * (rank == 3 ? 1 + 0.3 * i / 100 : 1) * noise());
    unlike += fmt::format("{},{}\n", i, 100 + i % 3);
  }
  const IterationTimes times = read(table, {.column = "step_ms"});
  EXPECT_THAT(times.series, SizeIs(4));
  EXPECT_THAT(times.notes, Contains("the ranks are those of column 'Rank'"));
  EXPECT_THAT(run_isochron("analyze --column step_ms " + write(table)), Ends(0, "the worst is rank 3:"));
  EXPECT_FALSE(read(unlike, {.column = "step_ms"}).by_rank) << "each row has its own";
  EXPECT_THAT(ms(unlike, {.column = "step_ms"}), AllOf(SizeIs(100), Contains(102)));
  EXPECT_THAT(ms("rank,step_ms\n0,1\n1,2\n0,3\n1,4\n", {.column = "step_ms"}), ElementsAre(1, 2, 3, 4));
  std::string many = "rank,step_ms\n";
  for (int i = 0; i < 5000; ++i) many += fmt::format("{},{}\n", i, 1 + i % 3);
  EXPECT_THAT(ms(many, {.column = "step_ms"}), SizeIs(5000)) << "more than there may be ranks";
}

TEST_F(ToldApart, ClocksAreNoTimesOfIterations) {
  std::string log, reset;
  double elapsed = 0;
  for (int i = 1; i <= 40; ++i) {
    elapsed += 3 * noise();
    log += fmt::format("epoch {}: total time {:.2f} s\n", i, elapsed);
    reset += fmt::format("took {} s\n", i <= 20 ? 3 * i : 3 * (i - 20));
  }
  EXPECT_ERROR(
      static_cast<void>(read(log)), ErrorCode::kInvalidArgument,
      "the times never fall and rise by about the same amount each, as cumulative times do; use --elapsed");
  const IterationTimes times = read(log, {.elapsed = true});
  EXPECT_THAT(times.series[0].ns, SizeIs(39));
  EXPECT_NEAR(times.series[0].ns[20], 3e9, 0.3e9);
  EXPECT_NEAR(times.resolution_ns, 0.01e9, 1) << "of a difference";
  EXPECT_EQ(times.each, "the time of an epoch, as the difference from the value before");
  EXPECT_THAT(read(log, {.elapsed = false}).series[0].ns, SizeIs(40));
  EXPECT_THAT(run_isochron("analyze " + write(log)), Ends(2, "--no-elapsed to judge the times as they are"));
  EXPECT_THAT(run_isochron("analyze --require-flat --elapsed " + write(log)), Ends(0, "flat: "));
  EXPECT_THAT(run_isochron("analyze --no-elapsed " + write(log)), Ends(0, "growing: "));
  std::string both;
  for (int i = 1; i <= 40; ++i)
    both += fmt::format("epoch {}: took {:.2f} s, running for {} s\n", i, 3 * noise(), 3 * i);
  EXPECT_THAT(run_isochron("analyze --require-flat " + write(both)),
              Ends(0, "'epoch running for' (40 values, median 61.50 s)"))
      << "the time of an epoch is judged, the clock isn't";
  const IterationTimes twice = read(reset, {.pattern = "took ([0-9.]+) (s)", .elapsed = true});
  EXPECT_THAT(twice.series[0].ns, SizeIs(38));
  EXPECT_THAT(twice.notes, Contains("left out: 1 value no larger than the one before"));
  EXPECT_EQ(twice.each, "the difference from the value before");
  EXPECT_ERROR(static_cast<void>(read("s\n3\n3\n", {.elapsed = true})), ErrorCode::kBadFormat,
               "no time is larger than the one before it");
}

TEST_F(ToldApart, GrowingTimesAreNoClock) {
  const auto series = [this](size_t n, double first, double step, double scatter) {
    std::vector<double> ns(n);
    for (size_t i = 0; i < n; ++i)
      ns[i] = (first + step * static_cast<double>(i)) * (1 + scatter * rng_.normal());
    return ns;
  };
  EXPECT_TRUE(look_elapsed(series(6, 3e9, 3e9, 0)));
  EXPECT_TRUE(look_elapsed(series(100, 20e9, 3e9, 0))) << "with a start that took longer";
  EXPECT_TRUE(look_elapsed(series(100, 1.8e18, 3e9, 0))) << "dates";
  EXPECT_FALSE(look_elapsed(series(5, 3e9, 3e9, 0))) << "too few to tell";
  EXPECT_FALSE(look_elapsed(series(10, 9e9, 3e9, 0))) << "few, and the first much longer than the steps";
  EXPECT_FALSE(look_elapsed(series(100, 100e9, 3e9, 0)));
  EXPECT_FALSE(look_elapsed(series(100, 3e9, 3e9, 0.02))) << "some are shorter than the one before";
  EXPECT_FALSE(look_elapsed(std::vector<double>(100, 3e9)));
}

TEST_F(ToldApart, NamedTimesOfALineAreItsPhases) {
  const auto phases = [this](const std::string& line) {
    const IterationTimes times = read(line + "\n" + line + "\n");
    std::vector<std::string> names = {times.phase};
    for (const IterationTimes& other : times.others) names.push_back(other.phase);
    return names;
  };
  EXPECT_THAT(phases("step 7: data time 1.01 ms, step time 60.31 ms"),
              ElementsAre("step time", "step data time"));
  EXPECT_THAT(phases("Epoch 7 val time: 1.01s, train time: 3.02s"),
              ElementsAre("Epoch train time", "Epoch val time"));
  EXPECT_THAT(phases("step 7: forward 30.1 ms, backward 60.3 ms, total 90.4 ms"),
              ElementsAre("step total", "step forward", "step backward"));
  EXPECT_THAT(phases("step 7 | loss: 6.04 | dt: 574.44ms | tok/sec: 912688.63"), ElementsAre("step loss dt"));
  EXPECT_THAT(phases("Epoch 0 Step 10/1500 Loss 2.54 data 0.05s batch 0.32s eta 0:10:01"),
              ElementsAre("Epoch batch", "Epoch Step Loss data"));
  EXPECT_EQ(read("Epoch 0 Step 10/1500 took 0.32s\n").each, "the time of a step");
  EXPECT_THAT(phases("step 7: 68 ms, eta 5 min, avg 70 ms, 3 s remaining"), ElementsAre("step"))
      << "what isn't the time of something";
  EXPECT_THAT(phases("Epoch: 7 | Val Loss: 1.95 | Epoch Time: 1m 39s"),
              ElementsAre("Epoch Val Loss Epoch Time"));
  EXPECT_THAT(ms("Epoch: 7 | Epoch Time: 1m 39s\nEpoch: 8 | Epoch Time: 1m 38s\n"),
              ElementsAre(99000, 98000));
  EXPECT_THAT(phases("epoch 7: 6.12 s, best model saved in 3.1 s, next eval in 600 s"),
              ElementsAre("epoch", "epoch model saved in"));
  EXPECT_THAT(phases("loss=0.5, avg steps/s: 10.0, steps/s: 12.5, data it/s: 90.0"),
              ElementsAre("loss avg steps s steps s", "data it s"));
  EXPECT_THAT(phases("epoch 7 took 2 hours 4 minutes 30 seconds, validation 3 min 20 s"),
              ElementsAre("epoch took", "epoch validation"));
}

TEST_F(ToldApart, SettingsAreNotTheMainPhase) {
  std::string log;
  for (int i = 0; i < 100; ++i)
    log += fmt::format("step {}: {:.2f} ms, window 30 s\n", i, 95 * (1 + 0.3 * i / 100) * noise());
  EXPECT_THAT(run_isochron("analyze " + write(log)), Ends(0, "phase 'step'), each the time of a step"));
  EXPECT_THAT(run_isochron("analyze --require-flat " + write(log)), Ends(1, "not found to be flat"));
}

TEST_F(ToldApart, WordsMayComeAndGo) {
  std::string log, both;
  for (int i = 1; i <= 20; ++i) {
    log += fmt::format("epoch {}{} took {} ms\n", i, i % 3 == 0 ? "" : " (new best)", 10 + i % 2);
    both += fmt::format("epoch {0} train took {1} ms\nepoch {0} val took {1} ms\n", i, 10);
  }
  EXPECT_THAT(read(log).series[0].ns, SizeIs(20));
  EXPECT_THAT(ms(log), Contains(10).Times(10));
  EXPECT_THAT(read(log).others, IsEmpty());
  EXPECT_THAT(read(both).series[0].ns, SizeIs(20)) << "both count the same epochs";
  EXPECT_THAT(read(both).others, SizeIs(1));
  std::string slow;
  for (int i = 1; i <= 20; ++i)
    slow +=
        fmt::format("step {} {} {} ms\n", i, i % 5 == 0 ? "evaluation took" : "took", i % 5 == 0 ? 90 : 10);
  EXPECT_THAT(read(slow).others, SizeIs(1)) << "what takes much longer is another phase";
}

TEST_F(ToldApart, AnotherPhaseThatGrowsIsNotFlat) {
  std::string log;
  for (int i = 1; i <= 100; ++i)
    log += fmt::format("epoch {0} took {1:.2f} ms\nepoch {0} saved in {2:.2f} ms\n", i, 900 * noise(),
                       300 * (1 + 0.5 * i / 100) * noise());
  const std::string file = write(log), json = (folder_.path() / "json").string();
  const Outcome outcome = run_isochron("analyze --require-flat --json " + json + " " + file);
  EXPECT_THAT(outcome, Ends(1, "the time of another phase, 'epoch saved in', grows: "));
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("\nflat: "), HasSubstr("'epoch saved in' (100 values, median "),
                                  HasSubstr(" ms, growing +")));
  EXPECT_EQ(read_json(json)["source"]["other_phases"][0]["kind"], "growing");
  EXPECT_THAT(run_isochron("analyze --require-flat --phase 'epoch took' " + file), Ends(0, "flat: "));
  std::string brief = log;  // a hundredth of the time may change by more
  for (int i = 1; i <= 10; ++i) brief += fmt::format("epoch {} logged in {} ms\n", i, 10 + 0.1 * i);
  EXPECT_THAT(run_isochron("analyze " + write(brief)),
              Ends(0, "'epoch logged in' (10 values, median 10.5 ms, "));
}

TEST_F(ToldApart, LinesOfJsonAreRows) {
  std::string log = "{\"config\": {\"lr\": 0.1}}\n", ranked;
  for (int i = 0; i < 100; ++i) {
    log += fmt::format(
        R"({{"step": {}, "loss": {}, "train": {{"step_ms": {:.2f}}}, "phase": "{}", "tokens": {}}})", i,
        i % 7 == 0 ? "NaN" : "0.5", 100.0 * (1 + i % 2), i % 10 == 9 ? "val" : "train", 10 * (1 + i % 2));
    log += "\n";
    for (int rank = 0; rank < 2; ++rank)
      ranked += fmt::format("{{\"rank\": {}, \"step_ms\": {}}}\n", rank, 100 + 0.5 * i * rank);
  }
  const IterationTimes times = read(log, {.column = "train.step_ms"});
  EXPECT_THAT(times.series.at(0).ns, SizeIs(100));
  EXPECT_EQ(times.series[0].ns[1], 200e6);
  EXPECT_THAT(times.notes, ElementsAre("left out: 1 line without 'train.step_ms'"));
  EXPECT_THAT(read(log, {.column = "train.step_ms", .work = "tokens", .phase_column = "phase"}).series[0].ns,
              AllOf(SizeIs(90), testing::Each(testing::DoubleNear(150e6, 1))));
  EXPECT_THAT(read(log, {.column = "train.step_ms", .phase_column = "phase", .phase = "val"}).series[0].ns,
              SizeIs(10));
  EXPECT_THAT(read(ranked, {.column = "step_ms"}).series,
              ElementsAre(Field(&TimeSeries::rank, "0"), Field(&TimeSeries::rank, "1")));
  EXPECT_THAT(run_isochron("analyze --column step_ms " + write(ranked)),
              Ends(0, "the worst is rank 1:\ngrowing"));
  EXPECT_ERROR(static_cast<void>(read(ranked)), ErrorCode::kInvalidArgument,
               "is JSON Lines with the keys rank, step_ms; name the one with the times with --column");
  EXPECT_ERROR(static_cast<void>(read(ranked, {.column = "time", .unit = "s"})), ErrorCode::kBadFormat,
               "no line has 'time'; the keys of the first are: rank, step_ms");
  EXPECT_ERROR(static_cast<void>(read("{\"ms\": 5}\n{\"ms\": \"x\"}\n", {.column = "ms"})),
               ErrorCode::kBadFormat, "line 2] 'x' is not a number");
  const std::string cut = "{\"ms\": 5}\n{\"ms\": 6}\n{\"ms\": ";
  EXPECT_ERROR(static_cast<void>(read(cut, {.column = "ms"})), ErrorCode::kBadFormat,
               "line 3] expected a JSON object, got '{\"ms\": '; --allow-gaps skips");
  EXPECT_THAT(ms(cut, {.column = "ms", .allow_gaps = true}), ElementsAre(5, 6));
  EXPECT_THAT(ms("{\"ms\": 5}\n{\"ms\": NaN}\n", {.column = "ms", .allow_gaps = true}), ElementsAre(5));
}

TEST_F(ToldApart, ProgramsHaveTheirForms) {
  const struct {
    const char* line;
    const char* program;
    double ms;
  } cases[] = {
      {"Train: 0 [  50/312 ( 16%)]  Loss: 5.22 (3.57)  Time: 0.250s, 1042.10/s  (0.251s, 1019.05/s)", "timm",
       250},
      {"2024-05-01 | INFO | train_inner | epoch 001:    200 / 500 loss=5.9, wps=11231.6, ups=2.50, wall=78",
       "fairseq", 400},
      {"[INFO] [timer.py:260:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=36.09, "
       "CurrSamplesPerSec=40.00, MemAllocated=1.33GB",
       "DeepSpeed", 25},
      {"[05/01 11:58:21 d2.utils.events]:  eta: 0:23:09  iter: 39  total_loss: 1.31  time: 0.3508  "
       "last_time: 0.3431  data_time: 0.0105  last_data_time: 0.0050",
       "Detectron2", 343.1},
      {"completed step: 1, seconds: 1.289, TFLOP/s/device: 193.973, Tokens/s/device: 6356.092", "MaxText",
       1289},
      {"Training epoch 0, iteration 5/799 | lr: 1.4e-06 | train_step_timing in s: 1.301 | consumed: 3072",
       "NeMo", 1301},
      {"[titan] 2024-05-01 - root - INFO - step: 20  loss:  6.2407  tps: 8,000  tflops: 330.75  mfu: 33.08%",
       "torchtitan", 0.125},
      {"I0501 140 keras_utils.py:145] TimeHistory: 8.46 seconds, 3026.01 examples/second between steps 100 "
       "and "
       "200",
       "TensorFlow", 8460},
      {"I0501 140 basic_session_run_hooks.py:260] loss = 1.0791260, step = 100 (8.419 sec)", "TensorFlow",
       8419},
      {"[2024-05-01] Ep. 1 : Up. 200 : Sen. 20,246 : Cost 3.5 : Time 37.60s : 10638.32 words/s : gNorm "
       "1.1389",
       "Marian", 37600},
      {"[INFO] - global step 20, epoch: 1, batch: 10, avg_reader_cost: 0.0012 sec, avg_batch_cost: 0.27156 "
       "sec",
       "PaddlePaddle", 271.56},
      {"ppdet.engine INFO: Epoch: [0] [ 20/200] eta: 0:11:54 batch_cost: 0.2716 data_cost: 0.0011",
       "PaddlePaddle", 271.6},
      {"(trainer:763) INFO: 1epoch:train:51-100batch: iter_time=1.067e-04, forward_time=0.234, "
       "train_time=0.585",
       "ESPnet", 585},
      {"solver.cpp:239] Iteration 100 (12.5 iter/s, 8s/100 iters), loss = 2.93475", "Caffe", 80},
      {" 12: 1.807004, 2.272061 avg loss, 0.001000 rate, 2.390625 seconds, 64 images, 0.076667 hours left",
       "Darknet", 2390.625},
      {"   640: 50% ━━━━━━────── 20/40 2.5it/s 0.0s<16.5s", "Ultralytics", 400},
      {"step 200, loss=2.0990, steps/s: 12.5", "lines of a loop", 80},
      {"logging_writer.py:48] [200] steps_per_sec=12.5, train_loss=1.204701", "lines of a loop", 80},
  };
  for (const auto& [line, program, expected] : cases) {
    SCOPED_TRACE(line);
    IterationTimes times;
    ASSERT_NO_THROW(times = read(std::string(line) + "\n"));
    EXPECT_EQ(times.program, program);
    ASSERT_THAT(times.series[0].ns, SizeIs(1));
    const double ns = times.series[0].ns[0];
    const bool thousand = times.each.find("1000 ") != std::string::npos;
    EXPECT_NEAR(ns / (thousand ? 1000 : 1), expected * 1e6, 1e-6 * expected * 1e6);
  }
  EXPECT_THAT(read("{'eval_runtime': 2.0, 'epoch': 1.0}\n").notes,
              Contains(HasSubstr("contains only the times of evaluations")));
}

}  // namespace
}  // namespace isochron::apps
