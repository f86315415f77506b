// Logs of common programs, read unchanged. tests/apps/logs holds output of such programs
// (scripts/make_log_samples.py).
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "apps/analyze/log_fixture.h"
#include "isochron/apps/analyze/logs/log_formats.h"
#include "isochron/apps/analyze/read_times.h"
#include "isochron/apps/analyze/times/log_reader.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

struct Sample {
  const char* name;
  const char* program;
  const char* phase;
  size_t values;
  size_t index;       // of a value
  double ns;          // the value at `index`
  const char* each;   // what each is, in part
  const char* other;  // a phase that was left out; empty: none
};

class LogSamples : public testing::TestWithParam<Sample> {};

TEST_P(LogSamples, AreReadWithoutAPattern) {
  const Sample& sample = GetParam();
  const auto path =
      std::filesystem::path(ISOCHRON_SOURCE_DIR) / "tests/apps/logs" / (std::string(sample.name) + ".log");
  const IterationTimes times = read_times({.path = path});
  EXPECT_EQ(times.program, sample.program);
  EXPECT_EQ(times.phase, sample.phase);
  ASSERT_EQ(times.series.size(), 1u);
  const std::vector<double>& ns = times.series[0].ns;
  ASSERT_EQ(ns.size(), sample.values);
  EXPECT_NEAR(ns[sample.index], sample.ns, 1e-9 * sample.ns);
  EXPECT_THAT(times.each, HasSubstr(sample.each));
  EXPECT_THAT(times.notes, testing::Not(Contains(HasSubstr("without a readable time"))));
  if (*sample.other == '\0')
    EXPECT_THAT(times.others, IsEmpty());
  else
    EXPECT_THAT(times.others, Contains(Field(&IterationTimes::phase, sample.other)));
}

constexpr const char* kTwenty = "mean time of a step over a progress bar of 20";
constexpr const char* kEighteen = "mean time of a step over a progress bar of 18";
constexpr const char* kUpdate = "the time of an iteration as shown by an update of the progress bar";
INSTANTIATE_TEST_SUITE_P(
    All, LogSamples,
    testing::Values(Sample{"keras3", "Keras", "Epoch", 12, 11, 7e6, kTwenty, "evaluation"},
                    Sample{"keras3_terminal", "Keras", "Epoch", 10, 0, 12e6, kEighteen, ""},
                    Sample{"keras3_lines", "Keras", "Epoch", 12, 5, 17e6, kEighteen, ""},
                    Sample{"keras2", "Keras", "Epoch", 10, 0, 6e6, kTwenty, "evaluation"},
                    Sample{"keras2_terminal", "Keras", "Epoch", 10, 6, 7e6, kTwenty, ""},
                    Sample{"keras2_lines", "Keras", "Epoch", 12, 0, 19e6, kTwenty, ""},
                    Sample{"tqdm", "tqdm", "bar", 148, 147, 1e9 / 330.97, kUpdate, ""},
                    Sample{"tqdm_epochs", "tqdm", "Epoch", 10, 1, 1e9 / 247.49,
                           "mean time of a batch over a progress bar of 25", ""},
                    Sample{"tqdm_nested", "tqdm", "epoch lr", 8, 7, 1e9 / 249.94,
                           "an iteration over a progress bar of 30", "epochs"},
                    Sample{"tqdm_slow", "tqdm", "bar", 11, 0, 1.12e9, "the time of a chunk", ""},
                    Sample{"tqdm_scaled", "tqdm", "bar", 61, 0, 1e12 / 6.49e6, "the time of 1000 tok",
                           "stream"},
                    Sample{"lightning", "Lightning", "Epoch", 8, 2, 1e9 / 66.00, "over a progress bar of 32",
                           "Validation DataLoader"},
                    Sample{"lightning_rich", "Lightning's rich bar", "Epoch", 8, 7, 1e9 / 137.41,
                           "over a progress bar of 32", ""},
                    Sample{"lightning_rich_terminal", "Lightning's rich bar", "Epoch", 8, 7, 1e9 / 134.64,
                           "over a progress bar of 32", "Validation"},
                    Sample{"transformers", "tqdm", "bar of 200", 31, 0, 1e9 / 72.60, kUpdate, "bar of 20"},
                    Sample{"imagenet", "PyTorch's ImageNet example", "Epoch", 82, 1, 220e6,
                           "the time of an iteration", "Test"},
                    Sample{"torchvision", "torchvision's references", "Epoch", 128, 0, 480e6,
                           "the time of an iteration", "Test"},
                    Sample{"loop_epochs", "lines of a loop", "Epoch Loss Time", 10, 9, 60e6,
                           "the time of an epoch", "validated epoch accuracy took"},
                    Sample{"loop_steps", "lines of a loop", "step", 100, 0, 3e6, "the time of a step", ""}),
    [](const auto& sample) { return sample.param.name; });

class Logs : public LogFixture {};

TEST_F(Logs, LinesOfLoopsAreReadWithTheirUnits) {
  const struct {
    const char* line;
    double ms;
    const char* each;
  } cases[] = {
      {"Epoch 3, Time: 1.5 seconds", 1500, "the time of an epoch"},
      {"epoch 3 took 1.5s", 1500, "the time of an epoch"},
      {"Epoch [3/10], loss=0.2 (time 250ms)", 250, "the time of an epoch"},
      {"Epoch 3/10 finished in 2 min", 120000, "the time of an epoch"},
      {"step 100: 12.3 ms", 12.3, "the time of a step"},
      {"iter 100: loss 4.5000, time 12.50ms, mfu 3.40%", 12.5, "the time of an iteration"},
      {"step    1/1000 | loss 3.2 | norm 1.1 | 12.50 ms | 1234 tok/s", 12.5, "the time of a step"},
      {"step 7 loss 0.1 250us/step", 0.25, "the time of a step"},
      {"[3/8] loss 0.1 61.1s", 61100, "the time of an iteration"},
      {"2026-01-02 10:11:12 INFO [ 3/10] - loss 0.1 - 1.5 s", 1500, "the time of an iteration"},
      {"iteration 7: loss 0.1, 40.0 it/s", 25, "the time of an iteration"},
      {"2026-01-02 10:11:12 INFO Epoch 3 - Duration: 1.5 s.", 1500, "the time of an epoch"},
      {"\x1b[32mEpoch 3\x1b[0m took \x1b[1m1.5s\x1b[0m", 1500, "the time of an epoch"},
  };
  for (const auto& [line, expected, each] : cases) {
    SCOPED_TRACE(line);
    IterationTimes times;
    ASSERT_NO_THROW(times = read(std::string(line) + "\n" + line + "\n"));
    EXPECT_EQ(times.program, "lines of a loop");
    EXPECT_EQ(times.each, each);
    ASSERT_THAT(times.series[0].ns, testing::SizeIs(2));
    EXPECT_NEAR(times.series[0].ns[0], expected * 1e6, 1e-3);
  }
}

TEST_F(Logs, NumbersOfLinesAreReadWhole) {
  const struct {
    const char* line;
    double ms;
  } cases[] = {
      {"step 5: 2,500 it/s", 0.4}, {"step 5: 1,234.5 it/s", 1e3 / 1234.5},
      {"step 5: 1_250 it/s", 0.8}, {"step 5: loss 0.1 1.5e-03 s/it", 1.5},
      {"step 5: .5 s/it", 500},    {"step 5 took 1,234 ms", 1234},
      {"step 5: 1,234 ms", 1234},  {"step 5: 1.5e-03 s", 1.5},
      {"step 5,12.5 ms", 12.5},    {"step 5,123 ms", 123},
      {"step 5:12.5 ms", 12.5},    {"step 5 - 10 ms", 10},
      {"step 5 -- 10 ms", 10},     {"step 5-10 ms", 10},
      {"[step 5]-12.3 ms", 12.3},  {"iter 5/100:25.5ms", 25.5},
      {"epoch 1/10:12.5s", 12500}, {"step 5, tokens 5M, 0.3 s", 300},
  };
  for (const auto& [line, expected] : cases) {
    SCOPED_TRACE(line);
    EXPECT_NEAR(read(std::string(line) + "\n" + line + "\n").series[0].ns.at(0), expected * 1e6, 1e-3);
  }
}

TEST_F(Logs, NumbersThatCannotBeToldAreRefused) {
  const struct {
    const char* line;
    const char* message;
  } cases[] = {
      {"step 5: loss 0.1 2,25 s/it", "line 2] '2,25' isn't clearly one number; expected a decimal point"},
      {"step 5: 0,250 s/it", "'0,250' isn't clearly one number"},
      {"step 5: loss 0.1,25.0 it/s", "'0.1,25.0' isn't clearly one number"},
      {"step 5: 1:02:30 s/it", "'1:02:30' is written as on a clock"},
      {"step 1,234,567 ms", "'1,234,567' may be a step followed by a time, or one number"},
      {"step 5: -10.3 ms", "line 2] expected a number above 0, got -10.3"},
      {"step 5 took -1.4 s", "expected a number above 0, got -1.4"},
      {"step 5: loss 0.1, -10.02 it/s", "expected a number above 0, got -10.02"},
      {"step 5: \u221210 ms", "expected a number above 0, got -10"},
  };
  for (const auto& [line, message] : cases) {
    SCOPED_TRACE(line);
    EXPECT_ERROR(static_cast<void>(read(std::string("step 4: 10 ms\n") + line + "\n")), ErrorCode::kBadFormat,
                 message);
  }
  for (const char* line : {"step 5.2 it/s", "step 5.2 ms"}) {
    EXPECT_THAT(ms(std::string("step 4: 10 ms\n") + line + "\n"), ElementsAre(10))
        << line << " has one number";
  }
}

TEST_F(Logs, CountersHaveSeparatorsOfThousands) {
  EXPECT_THAT(ms("step 999: 40.1 ms\nstep 1,000: 40.2 ms\nstep 1,001/12,000: 40.3 ms\n"),
              ElementsAre(40.1, 40.2, 40.3));
  EXPECT_THAT(ms("step 1,000 took 40.2 ms\nstep 1_001 took 3 ms\n"), ElementsAre(40.2, 3));
  EXPECT_THAT(ms("step 1,000: loss 0.1 25 it/s\n"), ElementsAre(40));
  EXPECT_THAT(
      ms("Epoch 1,000/2,000\n1,024/1,024 - 9s - 9ms/step\nEpoch 1,001/2,000\n1,024/1,024 - 9s - 8ms/step\n"),
      ElementsAre(9, 8));
  EXPECT_THAT(ms(" iteration 1,000/ 2,000 | elapsed time per iteration (ms): 12.5 | loss: 7.1\n"),
              ElementsAre(12.5));
  std::string bars;
  for (int i = 0; i < 6; ++i)
    bars += fmt::format("Epoch 1,00{}: 100%|###| 1,032/1,032 [00:01<00:00, {}.00it/s]\n", i, 10 + i);
  EXPECT_EQ(read(bars).series[0].ns.size(), 6u) << "told apart by the whole number of an epoch";
}

TEST_F(Logs, LinesLikeThoseWithATimeAreCounted) {
  const IterationTimes times = read(
      "step 1: 40 ms\nstep two: 4 s\nstep 1'000: 40 ms\n--- 5\nstep 3: nan ms\nstep 4: 40 ms\nsaved step "
      "4\n");
  EXPECT_THAT(times.series[0].ns, ElementsAre(4e7, 4e7, 4e7));
  EXPECT_THAT(
      times.notes,
      ElementsAre(
          "left out: 1 line similar to those with a time, but without a readable time; the first is line 5"));
  const IterationTimes found =
      read("took 4 ms\ntook 5 ms\ntook x5 ms\ntook - ms\n", {.pattern = "took ([0-9]+) (ms)"});
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_THAT(
      read("took 4 ms\ntook (5) ms\n", {.pattern = "took ([0-9]+) (ms)"}).notes,
      ElementsAre(
          "left out: 1 line similar to those with a time, but without a readable time; the first is line 2"));
}

TEST_F(Logs, DurationsOfSeveralUnitsAreAddedUp) {
  const struct {
    const char* text;
    double seconds;
  } cases[] = {{"4 min 59 s", 299},
               {"4min59s", 299},
               {"4m 59s", 299},
               {"2 minutes and 55 seconds", 175},
               {"2 minutes, 55 seconds", 175},
               {"1 h 4 min", 3840},
               {"1 h 4 min 5.5 s", 3845.5},
               {"1 hour, 4 minutes, and 5 seconds", 3845},
               {"1.5 h", 5400},
               {"4 min (of 30 s each)", 240}};
  for (const auto& [text, seconds] : cases) {
    SCOPED_TRACE(text);
    const std::string line = fmt::format("Epoch 3 took {}\n", text);
    const TimesOptions pattern{.pattern = R"(took ([0-9.]+) ?(h\w*|m\w*))"};
    EXPECT_NEAR(read(line, pattern).series[0].ns.at(0), seconds * 1e9, 1);
    if (std::string_view(text).starts_with("4m")) continue;  // in no known format
    EXPECT_NEAR(read(line).series[0].ns.at(0), seconds * 1e9, 1);
  }
  EXPECT_THAT(ms("took 4 min 59 s\n", {.pattern = "([0-9.]+) (min|s)"}), ElementsAre(299000))
      << "the last match";
  EXPECT_THAT(ms("took 4 min 59\n", {.pattern = "([0-9.]+) (min|s)"}), ElementsAre(240000));
  EXPECT_DOUBLE_EQ(read("Epoch 3 took 4 min 10 s\n").resolution_ns, 1e9);
  for (const char* text : {"4 min, 30 s left", "4 min, 0.35 s", "4 min 75 s", "2 min 5 s/step"})
    EXPECT_ERROR(static_cast<void>(read(fmt::format("Epoch 3 took {}\n", text))), ErrorCode::kBadFormat,
                 "may be one time or two; expected one, such as '4 min 59 s'");
  EXPECT_ERROR(static_cast<void>(read("Epoch 3 took -4 min 59 s\n")), ErrorCode::kBadFormat, "got -4");
}

TEST_F(Logs, OthersThatHaveTheirOwnForm) {
  const struct {
    const char* line;
    double ms;
    const char* program;
  } cases[] = {
      {" iteration      100/    1000 | consumed samples: 800 | elapsed time per iteration (ms): 12.5 | loss: "
       "7.1",
       12.5, "Megatron-LM"},
      {"2026-01-02 10:11:12,123 - INFO - Epoch [1][50/7330]\tlr: 2.0e-02, eta: 1:02:03, time: 0.250, "
       "data_time: 0.05",
       250, "torchvision's references"},
      {"[rank0]: Epoch: [3][ 50/5005]\tTime  0.250 ( 0.300)\tData  0.001 ( 0.010)", 250,
       "PyTorch's ImageNet example"},
      {"      1/3         0G      1.234      2.345         12        640: 100%|###| 8/8 [00:01<00:00,  "
       "4.00it/s]",
       250, "tqdm"},
      {"2026-01-02T10:11:12Z 8/8 - 2s - 250ms/step - loss: 0.5", 250, "Keras"},
      {"| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.34 | loss  7.62 | ppl  2033.90", 12.34,
       "PyTorch's word language model example"},
  };
  for (const auto& [line, expected, program] : cases) {
    SCOPED_TRACE(line);
    IterationTimes times;
    ASSERT_NO_THROW(times = read(std::string("first\n") + line + "\n"));
    EXPECT_EQ(times.program, program);
    EXPECT_NEAR(times.series[0].ns.at(0), expected * 1e6, 1e-3);
  }
}

TEST_F(Logs, LinesWithoutATimeOfTheirOwnAreNotRead) {
  for (const char* line :
       {"Epoch 3/10", "Epoch 3: loss 0.5", "took 1.5s", "epoch 3: time elapsed 1.5 s",
        "step 100: lr 12 samples", "32/32 [====] - ETA: 0s - loss: 0.5", "Total time: 0:02:40"}) {
    SCOPED_TRACE(line);
    EXPECT_ERROR(static_cast<void>(read(std::string(line) + "\nand so on\n")), ErrorCode::kBadFormat,
                 "none of 2 lines shows a time in a known format (");
  }
}

TEST_F(Logs, ManyUpdatesInALineAreOneValueABar) {
  std::string log;
  for (int epoch = 1; epoch <= 6; ++epoch)
    log += fmt::format(
        "Epoch {}/6\n 1/32 [>...] 9s 9ms/step\b\b\b\b\b\r16/32 3s 3ms/step\b\b\r32/32 0s {}us/step\n", epoch,
        900 + epoch);
  EXPECT_THAT(ms(log), ElementsAre(0.901, 0.902, 0.903, 0.904, 0.905, 0.906));
}

TEST_F(Logs, KerasShowsStepsOfAnyLength) {
  EXPECT_THAT(ms("Epoch 1/2\n8/8 - 9s - 1s/step - loss: 1\nEpoch 2/2\n8/8 - 0s - 350us/step - loss: 1\n"),
              ElementsAre(1000, 0.35));
  EXPECT_THAT(ms("Epoch 1/2\n8/8 [===] - 12s 2s/step\nEpoch 2/2\n8/8 [===] - 0s 2ms/step\n"),
              ElementsAre(2000, 2));
  EXPECT_THAT(ms("Epoch 1/1\n8/8 - 1s 5ms/step\nEpoch 1/1\n8/8 - 1s 6ms/step\n"), ElementsAre(5, 6))
      << "fit once an epoch";
  EXPECT_THAT(ms("  8/Unknown 1s 5ms/step\r 16/Unknown 2s 6ms/step\n"), ElementsAre(6))
      << "how many isn't known";
}

TEST_F(Logs, EvaluationBelowAnEpochsBarIsAnotherPhase) {
  std::string log;
  for (int i = 1; i <= 6; ++i)
    log += fmt::format("Epoch {}/6\n10/10 - 1s - 9ms/step\n10/10 - 0s - 2ms/step\n", i);
  EXPECT_THAT(ms(log), ElementsAre(9, 9, 9, 9, 9, 9));
  EXPECT_THAT(ms(log, {.phase = "evaluation"}), ElementsAre(2, 2, 2, 2, 2, 2));
  EXPECT_ERROR(static_cast<void>(read(log, {.phase = "test"})), ErrorCode::kInvalidArgument,
               "[--phase] no phase 'test'; the phases are: Epoch, evaluation");
}

std::string bar(const std::string& label, int done, int total, const std::string& rate) {
  return fmt::format("\r{}: {}%|###  | {}/{} [00:01<00:02, {}]", label, 100 * done / total, done, total,
                     rate);
}

TEST_F(Logs, TqdmsRatesAreInverted) {
  EXPECT_THAT(
      ms(bar("a", 1, 9, "4.00it/s") + bar("a", 2, 9, "2.00s/it") + bar("a", 3, 9, "8.00batch/s, loss=3it/s") +
         bar("a", 4, 9, "?it/s") + bar("a", 5, 9, "1.00s/it")),
      ElementsAre(250, 2000, 125))
      << "the last one is the mean of the bar";
}

TEST_F(Logs, TqdmsUnitsMayBeginWithASpace) {
  EXPECT_THAT(
      ms(bar("a", 1, 9, "4.00 steps/s") + bar("a", 2, 9, "2.00s/ steps") + bar("a", 3, 9, "1.00s/ steps")),
      ElementsAre(250, 2000));
}

TEST_F(Logs, ColoredLinesWithSemicolonsAreALog) {
  std::string log;
  for (const int step : {1, 2, 3}) log += fmt::format("\x1b[38;2;98;6;224mstep {0}: {0} ms\x1b[0m\n", step);
  EXPECT_THAT(ms(log), ElementsAre(1, 2, 3));
}

TEST_F(Logs, ScaledCountsAndRatesBelongTogether) {
  const std::string scaled =
      "\r 1%|1| 10.0k/1.00M [00:01<00:09, 5.00ktok/s]\r 2%|1| 20.0k/1.00M [00:01<00:09, 500tok/s]"
      "\r 3%|1| 30.0k/1.00M [00:01<00:09, 1.00Mtok/s]";
  EXPECT_THAT(ms(scaled), ElementsAre(0.2, 2));
  EXPECT_THAT(ms(bar("a", 1, 9, "5.00keys/s") + bar("a", 2, 9, "5.00keys/s")), ElementsAre(200))
      << "a unit that begins like a prefix";
  EXPECT_THAT(ms(bar("a", 1, 500, "1.25kit/s") + bar("a", 2, 500, "500it/s") + bar("a", 3, 500, "1.25kit/s")),
              ElementsAre(0.8, 2))
      << "counts below a thousand";
}

TEST_F(Logs, PhasesOfBarsGoByWordsAndLength) {
  std::string log;
  for (int epoch = 0; epoch < 6; ++epoch) {
    const int steps = 100 + epoch;  // as when batches are formed by length
    log += bar(fmt::format("Epoch {} loss 0.{}", epoch, epoch), 0, steps, "?it/s");
    log += bar(fmt::format("Epoch {} loss 1.{}", epoch, epoch), steps, steps, "10.00it/s") + "\n";
    log += bar(fmt::format("Epoch {} loss 1.{}", epoch, epoch), 0, 20, "?it/s");
    log += bar(fmt::format("Epoch {} loss 1.{}", epoch, epoch), 20, 20, "40.00it/s") + "\n";
  }
  const IterationTimes times = read(log);
  EXPECT_EQ(times.phase, "Epoch loss of 100");
  EXPECT_THAT(times.series[0].ns, ElementsAre(1e8, 1e8, 1e8, 1e8, 1e8, 1e8));
  ASSERT_EQ(times.others.size(), 1u);
  EXPECT_EQ(times.others[0].phase, "Epoch loss of 20");
  EXPECT_EQ(times.others[0].series[0].ns, std::vector<double>(6, 25e6));
}

TEST_F(Logs, BarsOfWhichOnlyTheEndIsThereAreBars) {
  std::string log;
  for (int i = 0; i < 6; ++i) log += bar("Train", 32, 32, fmt::format("{}.00it/s", 10 + i)) + "\n";
  EXPECT_EQ(read(log).series[0].ns.size(), 6u);
  log.clear();
  for (int i = 0; i < 6; ++i) log += bar(fmt::format("Epoch {}", i), 32, 32, "10.00it/s") + "\n";
  EXPECT_EQ(read(log).series[0].ns.size(), 6u);
}

TEST_F(Logs, ABarThatIsDrawnAgainIsOneValue) {
  std::string log = bar("a", 0, 9, "?it/s");
  for (int i = 1; i < 9; ++i)
    log += bar("a", i, 9, "4.00it/s") + "\nsome other line\n" + bar("a", i, 9, "4.00it/s");
  EXPECT_THAT(ms(log), testing::SizeIs(7));
}

TEST_F(Logs, BarsOfSeveralProcessesAreNotTakenApart) {
  std::string log;
  for (int i = 0; i < 100; ++i)
    log += bar("a", i, 100, "4.00it/s") + "\n" + bar("a", std::max(0, i - 3), 100, "4.00it/s") + "\n";
  EXPECT_THAT(read(log).each, HasSubstr("as shown by an update of the progress bar"))
      << "one bar, drawn by two";
}

TEST_F(Logs, TimesOfZeroAreLeftOutAndCounted) {
  const IterationTimes times =
      read("epoch 1 took 0.0s\nepoch 2 took 0.1s\nepoch 3 took 0.0s\nepoch 4 took 0.1s\n");
  EXPECT_THAT(times.series[0].ns, ElementsAre(1e8, 1e8));
  EXPECT_THAT(times.notes, Contains("left out: 2 updates without a time"));
  EXPECT_DOUBLE_EQ(times.resolution_ns, 1e8);
}

TEST_F(Logs, AFormatCanBeForced) {
  const std::string log = "32/32 - 1s - 9ms/step\nEpoch 1 took 1s\nEpoch 2 took 1s\n";
  EXPECT_EQ(read(log, {.format = "keras"}).series[0].ns.size(), 1u);
  EXPECT_EQ(read(log, {.format = "lines"}).series[0].ns.size(), 2u);
  EXPECT_ERROR(static_cast<void>(read(log, {.format = "tqdm"})), ErrorCode::kBadFormat,
               "shows a time in the format tqdm;");
  EXPECT_ERROR(static_cast<void>(read(log, {.format = "abacus"})), ErrorCode::kInvalidArgument,
               "[--format] there is no format 'abacus'; formats are keras, ");
  EXPECT_ERROR(static_cast<void>(read(log, {.unit = "ms"})), ErrorCode::kInvalidArgument, "[--unit]");
}

TEST_F(Logs, WhatHasManyPhasesIsBounded) {
  std::string log;
  std::string word = "a";
  for (int i = 0; i < 3000; ++i) {
    for (size_t at = 0; at < word.size() && word[at]++ == 'z'; ++at) {
      word[at] = 'a';
      if (at + 1 == word.size()) word += 'a' - 1;
    }
    log += fmt::format("epoch {} {} took 1s\nEpoch {} took 2s\n", i, word, i);
  }
  const IterationTimes times = read(log);
  EXPECT_EQ(times.phase, "Epoch took");
  EXPECT_EQ(times.series[0].ns.size(), 3000u);
  EXPECT_LT(times.others.size(), 64u);
  EXPECT_THAT(times.notes, Contains(HasSubstr("lines of further phases")));
  EXPECT_ERROR(static_cast<void>(read(log, {.most_times = 1000})), ErrorCode::kBadFormat,
               "has more than 1000 times");
}

TEST_F(Logs, UpdatesEndAtReturnsBackspacesAndNewlines) {
  const auto path = write(
      "a\rb\r\n\n  \nc\b\b\bd\x1b[31me\x1b[0m\x1b]0;title\x07"
      "f\x1b(B\x1b]8;;x\x1b\\g\n\x1b[");
  InputStream stream(path);
  LogReader reader(stream);
  std::vector<std::pair<int64_t, std::string>> found;
  for (std::string update; reader.next(update);) found.emplace_back(reader.line(), update);
  EXPECT_THAT(found, ElementsAre(testing::Pair(1, "a"), testing::Pair(1, "b"), testing::Pair(4, "c"),
                                 testing::Pair(4, "defg")));
  EXPECT_EQ(reader.lines(), 5);
}

TEST_F(Logs, AnUpdateHasAMostSize) {
  const std::string longest(LogReader::kMaxBytes, 'x');
  EXPECT_ERROR(static_cast<void>(read("first\n" + longest + "y\n")), ErrorCode::kBadFormat,
               "line 2 has more than 1048576 bytes");
  std::string flood;
  for (int i = 0; i < 100'000; ++i) flood += bar("a", i, 100'000, "4.00it/s");
  EXPECT_GT(flood.size(), 3 * LogReader::kMaxBytes);
  EXPECT_EQ(read(flood).series[0].ns.size(), 99'999u) << "in one line";
}

TEST_F(Logs, APatternTakesTheLastMatchOfAnUpdate) {
  const TimesOptions keras{.pattern = "([0-9.]+)(ms|us|s)/step"};
  EXPECT_THAT(ms("1/9 9ms/step, 8ms/step\b\b\r9/9 \x1b[1m900us/step\x1b[0m\n", keras), ElementsAre(8, 0.9));
  EXPECT_THAT(ms("took \x1b[1m12\x1b[0m ms, then 13 ms\n", {.pattern = "([0-9]+) (ms)"}), ElementsAre(13));
}

TEST_F(Logs, APatternNeverReadsARateAsATime) {
  const std::string log = "32/32 [00:01<00:00, 25.0it/s]\n";
  EXPECT_THAT(ms(log, {.pattern = "([0-9.]+)(it/s)"}), ElementsAre(40));
  EXPECT_THAT(ms(log, {.pattern = ", ([0-9.]+)", .unit = "it/s"}), ElementsAre(40));
  EXPECT_THAT(ms("at 50.0 images/sec\n", {.pattern = "([0-9.]+) (images/sec)"}), ElementsAre(20));
  EXPECT_ERROR(static_cast<void>(read(log, {.pattern = ", ([0-9.]+)", .unit = "s"})), ErrorCode::kBadFormat,
               "'25.0it/s]' is a rate, expected a time");
  EXPECT_ERROR(static_cast<void>(read(log, {.pattern = ", ([0-9.]+)(it)"})), ErrorCode::kBadFormat,
               "is a rate");
  EXPECT_ERROR(static_cast<void>(read(log, {.pattern = "([0-9.]+)(it/s)", .unit = "s"})),
               ErrorCode::kInvalidArgument, "[--unit] is 's', but ");
  EXPECT_THAT(ms("2.5s/it\n", {.pattern = "([0-9.]+)(s)"}), ElementsAre(2500));
  EXPECT_ERROR(
      static_cast<void>(read("took 90 ms\ntook 1.2 s\n", {.pattern = "took ([0-9.]+)", .unit = "ms"})),
      ErrorCode::kInvalidArgument,
      "line 2 has '1.2 s'; to read times in several units, give a pattern whose second group is the unit");
}

TEST_F(Logs, APatternNeverReadsAPartOfANumber) {
  const TimesOptions usual{.pattern = "([0-9.]+) (ms|s)"};
  EXPECT_THAT(ms("took 1,234 ms\ntook 1.5e-03 s\ntook .5 s\n", usual), ElementsAre(1234, 1.5, 500));
  EXPECT_THAT(ms("took 1,234 ms\n", {.pattern = "took ([0-9.]+)", .unit = "ms"}), ElementsAre(1234));
  EXPECT_THAT(ms("took 123 ms\n", {.pattern = ".*([0-9.]+) (ms)"}), ElementsAre(123)) << "a greedy beginning";
  EXPECT_ERROR(static_cast<void>(read("took 5 ms\ntook 2,25 s\n", usual)), ErrorCode::kBadFormat,
               "line 2] '2,25' isn't clearly one number");
  EXPECT_ERROR(static_cast<void>(read("took 1:02:40 s\n", usual)), ErrorCode::kBadFormat,
               "'1:02:40' is written as on a clock; expected a number with a unit");
  EXPECT_ERROR(static_cast<void>(read("took -1.4 s\n", usual)), ErrorCode::kBadFormat,
               "expected a number above 0, got -1.4");
  EXPECT_THAT(ms("run-5 ms, 10-12 ms\n", usual), ElementsAre(12)) << "hyphens";
}

TEST_F(Logs, APatternMayNameWhatSeparatesNumbers) {
  EXPECT_THAT(ms("5,12.5,0.3\n", {.pattern = R"(^\d+,([0-9.]+))", .unit = "ms"}), ElementsAre(12.5));
  EXPECT_THAT(ms("12.5,0.3\n", {.pattern = "([0-9.]+),", .unit = "ms"}), ElementsAre(12.5));
  EXPECT_THAT(ms("[5,250 ms]\n", {.pattern = R"((?:[[(])\d+,\s*([0-9.]+) (ms))"}), ElementsAre(250));
  EXPECT_THAT(ms("rank 0:25 ms\n", {.pattern = ":([0-9.]+) (ms)"}), ElementsAre(25));
  EXPECT_THAT(ms("at -25 ms\n", {.pattern = "-([0-9.]+) (ms)"}), ElementsAre(25));
  EXPECT_THAT(ms("iter_20_250ms\n", {.pattern = R"(iter_\d+_(\d+)(ms))"}), ElementsAre(250));
  EXPECT_THAT(ms("step 20,250\n", {.pattern = R"(step \d+[,;](\d+)$)", .unit = "ms"}), ElementsAre(250));
  EXPECT_THAT(ms("k 20.250\n", {.pattern = R"(k \d+\.(\d+))", .unit = "ms"}), ElementsAre(250));
  EXPECT_THAT(ms("bench_20_0.5 ms\n", {.pattern = "([0-9.]+) (ms)"}), ElementsAre(0.5)) << "words of a name";
  EXPECT_THAT(ms("took 2,500 ms\n", {.pattern = "took .*([0-9.]+) (ms)"}), ElementsAre(2500));
}

TEST_F(Logs, APatternTakesItsOwnOfAList) {
  EXPECT_THAT(ms("step 20, eta 5 min, 0.35 s\n", {.pattern = "([0-9.]+) (s)$"}), ElementsAre(350));
  EXPECT_THAT(ms("rank 0 tokens 2.5M 0.5 s step 20\n", {.pattern = "([0-9.]+) s", .unit = "s"}),
              ElementsAre(500));
  EXPECT_THAT(ms("took 2m 5s\n", {.pattern = "([0-9.]+)(m|s)"}), ElementsAre(125000));
  EXPECT_THAT(ms("took 1 h, 4 min and 59 s\n", {.pattern = "([0-9.]+) (h)"}), ElementsAre(3899000));
}

TEST_F(Logs, APatternMayTakeADurationAsOnAClock) {
  const TimesOptions clock{.pattern = "time: ([0-9:.]+)"};
  EXPECT_THAT(ms("[10:00:03] time: 0:01:05\ntime: 1:05.5\ntime: 100:00:01\n", clock),
              ElementsAre(65e3, 65.5e3, 360'001e3));
  EXPECT_ERROR(static_cast<void>(read("time: 0:00\n", clock)), ErrorCode::kBadFormat,
               "expected a time above 0");
  EXPECT_ERROR(static_cast<void>(read("time: 1:60\n", clock)), ErrorCode::kBadFormat,
               "isn't clearly one number");
  EXPECT_THAT(ms("t=0:00\nt=0:10\nt=0:25\n", {.pattern = "t=([0-9:]+)", .elapsed = true}),
              ElementsAre(10e3, 15e3));
}

TEST_F(Logs, APatternMatchesALineSoManyTimes) {
  std::string line;
  for (int i = 0; i < 1001; ++i) line += "1 ms ";
  EXPECT_ERROR(static_cast<void>(read("2 ms\n" + line + "\n", {.pattern = "([0-9]) (ms)"})),
               ErrorCode::kBadFormat, "matches more than 1000 times in one line");
}

}  // namespace
}  // namespace isochron::apps
