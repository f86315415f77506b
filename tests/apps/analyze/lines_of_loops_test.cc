// Which of a log's numbers is the time of a step: not a spread, an estimate or a running total, nor a rarer
// phase.
#include <gmock/gmock.h>

#include "apps/analyze/log_fixture.h"
#include "isochron/apps/analyze/logs/log_formats.h"
#include "isochron/apps/analyze/read_times.h"
#include "support/expect_error.h"

namespace isochron::apps {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class LinesOfLoops : public LogFixture {
 protected:
  /// A line for each of `count` numbers from 0.
  template <typename Line>
  static std::string lines(int count, Line line) {
    std::string log;
    for (int i = 0; i < count; ++i) log += line(i) + "\n";
    return log;
  }
};

TEST_F(LinesOfLoops, ASpreadIsNoTime) {
  for (const char* sign : {"±", "+-", "+/-"}) {
    EXPECT_THAT(ms(fmt::format("step 7: 115.0 {} 3.1 ms\nstep 8: 116.5{}3.1 ms\n", sign, sign)),
                ElementsAre(115, 116.5))
        << sign;
  }
  EXPECT_THAT(ms("step 7: 12.3 ms ± 0.4 ms\nstep 8: 12.4 ms ± 0.4 ms\n"), ElementsAre(12.3, 12.4));
}

TEST_F(LinesOfLoops, OneOfSeveralTimesIsNotGuessed) {
  for (const char* times : {"min/avg/max 100.1/115.0/900.2 ms", "115.0 of 500.0 ms", "115.0–500.0 ms"})
    EXPECT_ERROR(read(fmt::format("step 7: {}\nstep 8: {}\n", times, times)), ErrorCode::kBadFormat,
                 "is the last of several times");
  EXPECT_THAT(ms("Epoch 1/10 - 12 ms\nEpoch 2 of 10 - 13 ms\n"), ElementsAre(12, 13));
}

TEST_F(LinesOfLoops, WhatIsLeftIsNoTime) {
  for (const char* left : {"left", "remaining", "to go", "(remaining)"}) {
    const std::string log =
        lines(4, [&](int i) { return fmt::format("step {}/9: 50 ms, {} s {}", i, 9 - i, left); });
    EXPECT_THAT(read(log).others, IsEmpty()) << left;
    EXPECT_THAT(ms(log), ElementsAre(50, 50, 50, 50)) << left;
    EXPECT_ERROR(read(fmt::format("step 1/9: loss 0.5, 9.3 s {}\n", left)), ErrorCode::kBadFormat,
                 "none of 1 line");
  }
}

TEST_F(LinesOfLoops, AreOfTheFinestThingThatTheyCount) {
  EXPECT_EQ(read("Step: 10 Epoch: 0 time: 0.115 sec\nStep: 20 Epoch: 0 time: 0.115 sec\n").each,
            "the time of a step");
  EXPECT_EQ(read("Epoch 3 took 171 s\nEpoch 4 took 172 s\n").each, "the time of an epoch");
}

TEST_F(LinesOfLoops, ARunningTotalIsNotTheEpochs) {
  for (const int epochs : {5, 10, 12}) {  // of 10 and 16 s in turn
    const std::string log = lines(epochs, [](int i) {
      return fmt::format("Epoch {}/12 | loss 0.5 | epoch time {}.0s | total time {}.0s", i + 1,
                         i % 2 == 0 ? 10 : 16, 26 * (i / 2) + (i % 2 == 0 ? 10 : 26));
    });
    EXPECT_EQ(ms(log).at(1), 16'000) << epochs;
  }
}

TEST_F(LinesOfLoops, ThatShowEveryHundredthStepStandForAll) {
  const std::string log = lines(100, [](int i) {
    std::string text = fmt::format("train | step: {} | steps/sec: 10.{} | output:", 100 * i, i % 10);
    if (i % 5 == 4) text += fmt::format("\n eval | step: {} | eval time: 12.{} sec", 100 * i, i % 10);
    return text;
  });
  EXPECT_THAT(ms(log), SizeIs(100));
  EXPECT_THAT(read(log).others, Contains(Field(&IterationTimes::phase, HasSubstr("eval"))));
}

TEST_F(LinesOfLoops, WithFewValuesAreNotJudgedBesideOthers) {
  const std::string log = lines(90, [](int i) {
    std::string text = fmt::format("epoch {} step {}/300: 573.{} ms", i / 30, 10 * (i % 30), i % 10);
    if (i % 30 == 29) text += fmt::format("\nEpoch {} took 171.{} s", i / 30, i / 30);
    return text;
  });
  EXPECT_THAT(ms(log), SizeIs(90));
}

TEST_F(LinesOfLoops, OfSeveralRunsAreToldOf) {
  const auto epochs = [](int count) {
    return lines(count, [](int i) { return fmt::format("Epoch {}: took 10.{} s", i, i % 10); });
  };
  EXPECT_THAT(read(epochs(40) + epochs(40) + epochs(3)).notes,
              Contains(HasSubstr("the epochs are counted anew 2 times, first in line 41")));
  EXPECT_THAT(read(epochs(40)).notes, Not(Contains(HasSubstr("counted anew"))));
}

TEST_F(LinesOfLoops, RatesHaveTheirUsualNames) {
  for (const char* unit : {"step/s", "steps/s", "iters/s", "batch/s", "it/s"})
    EXPECT_THAT(ms(fmt::format("step 1: loss 0.5, speed: 20.0 {}\n", unit)), ElementsAre(50)) << unit;
}

TEST_F(LinesOfLoops, BarsWithoutAnEndAreMeans) {
  std::string log;
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (const int done : {1, 10, 25})
      log += fmt::format("Epoch {}: |          | {}/? [00:0{}<00:00, {}.50it/s{}]\n", epoch, done, done / 10,
                         done / 10 + 8, epoch % 2 == 0 ? ", v_num=0" : "");
  }
  const IterationTimes times = read(log);
  EXPECT_EQ(times.program, "Lightning");
  EXPECT_THAT(times.series[0].ns, SizeIs(6));
  EXPECT_THAT(times.each, HasSubstr("mean"));
}

TEST_F(LinesOfLoops, BarsOfWhichOnlyTheEndIsLoggedMayHaveANumberInTheirLabel) {
  const auto count = [&](const char* label) {
    return read(lines(12,
                      [&](int i) {
                        return fmt::format("{}100%|##########| 32/32 [00:03<00:00, 1{}.50it/s]", label,
                                           i % 10);
                      }))
        .series[0]
        .ns.size();
  };
  EXPECT_EQ(count("ResNet50: "), 12U);
  EXPECT_EQ(count("2024-01-01 10:00:07 Train: "), 12U);
  EXPECT_EQ(count("loss=0.48: "), 12U);
}

TEST_F(LinesOfLoops, UltralyticsScalesWithACapital) {
  const std::string log = lines(50, [](int i) {
    return fmt::format("{}/50: 100% ━━━━━━━━━━━━ 64/64 8.{}it/s 7.6s", i + 1, i % 10) +
           (i == 0 ? "\nval: Scanning: 100% ━━━━━━━━━━━━ 128/128 1.1Kit/s 0.1s" : "");
  });
  const IterationTimes times = read(log);
  EXPECT_THAT(times.series[0].ns, SizeIs(50));
  ASSERT_THAT(times.others, SizeIs(1));
  EXPECT_NEAR(times.others[0].series[0].ns[0], 1e9 / 1.1e3, 1);
}

/// Takes minutes if a time costs as much as the line before it.
TEST_F(LinesOfLoops, OfAnyLengthAreReadInLinearTime) {
  const LogMatcher matcher("");
  std::string averages = "step 1:", grouped = "step 1";
  for (int i = 0; i < 100'000; ++i) {
    averages += " avg 5 ms,";
    grouped += ",111";
  }
  EXPECT_THAT(matcher.match(averages), IsEmpty());
  static_cast<void>(matcher.match(grouped));
}

TEST_F(LinesOfLoops, AColumnOfLeastTimesIsNotInMinutes) {
  EXPECT_ERROR(read("step,time_min,time_max\n1,0.115,0.2\n2,0.116,0.2\n", {.column = "time_min"}),
               ErrorCode::kInvalidArgument, "unit");
  EXPECT_ERROR(read("{\"time_min\": 0.1, \"time_max\": 0.2}\n", {.column = "time_min"}),
               ErrorCode::kInvalidArgument, "unit");
  EXPECT_THAT(ms("step,time_min\n1,2\n2,2\n", {.column = "time_min"}), ElementsAre(120'000, 120'000));
}

TEST_F(LinesOfLoops, GrowthIsNoRunningTotalOfAnotherPhase) {
  const std::string log = lines(40, [](int i) {
    return fmt::format("step {}: data 0.0{} s, step {:.2f} s", i, 1 + i % 2, 0.6 + 0.01 * i);
  });
  EXPECT_EQ(ms(log).at(0), 600);
}

TEST_F(LinesOfLoops, OfAnEvaluationStandForNoMoreStepsThanThoseOfTraining) {
  const std::string log = lines(100, [](int i) {
    std::string text = fmt::format("step {}: loss 0.3, {}.{} ms/step", 100 * i, 115 + i / 3, i % 10);
    if (i % 5 == 4) text += fmt::format("\neval at step {}: accuracy 0.7, 40.{} it/s", 100 * i, i % 10);
    return text;
  });
  EXPECT_THAT(ms(log), SizeIs(100));
}

TEST_F(LinesOfLoops, SettingsAndClocksAreNotPreferredToFewValues) {
  for (const char* other : {"window 30 s", "since start {}.5 s"}) {
    const std::string log = lines(20, [&](int i) {
      std::string text = fmt::format("step {}: {}", i, fmt::format(fmt::runtime(other), 3 * i));
      if (i % 5 == 4) text += fmt::format("\nEpoch {} took 20.{} s", i / 5, i / 5);
      return text;
    });
    EXPECT_THAT(ms(log), SizeIs(4)) << other;
  }
}

TEST_F(LinesOfLoops, StepsMayBeCountedAnewWithinAnEpoch) {
  const std::string log = lines(60, [](int i) {
    return fmt::format("epoch {} step {}: loss 0.5, took 50.{} ms", i / 20, i % 10, i % 10);
  });
  EXPECT_THAT(read(log).notes, Not(Contains(HasSubstr("counted anew"))));
}

TEST_F(LinesOfLoops, NumberedBarsThatAreDrawnTwiceAreOneValue) {
  const std::string log = lines(24, [](int i) {
    return fmt::format("Epoch {}: 100%|##########| 32/32 [00:03<00:00, 1{}.50it/s]", i / 2, i % 10);
  });
  EXPECT_THAT(ms(log), SizeIs(13)) << "twelve, and the first again, when no number has changed yet";
}

TEST_F(LinesOfLoops, DurationsMayBeWrittenAsOnAClock) {
  const auto clocks = [&](const std::string& beginning) {
    return lines(6, [&](int i) { return fmt::format("{}0:01:0{}", beginning, i); });
  };
  for (const char* beginning :
       {"Training epoch took: ", "Epoch 3, time: ", "elapsed=", "epoch 1 duration is "})
    EXPECT_THAT(ms(clocks(beginning)), ElementsAre(60e3, 61e3, 62e3, 63e3, 64e3, 65e3)) << beginning;
  EXPECT_THAT(ms("time: 1:05.5, loss 1\ntime: 2:05.25.\n"), ElementsAre(65.5e3, 125.25e3));
  for (const char* beginning :
       {"2024-05-01 ", "[", "ETA: ", "start time: ", "time left: ", "remaining time "})
    EXPECT_ERROR(read(clocks(beginning)), ErrorCode::kBadFormat, "shows a time in a known format");
  for (const char* beginning : {"step 3 time: ", "time: "})
    EXPECT_ERROR(read(lines(6, [&](int i) { return fmt::format("{}10:00:0{}", beginning, i); })),
                 ErrorCode::kBadFormat, "shows a time in a known format");
  EXPECT_ERROR(read("took 0:61:00\n"), ErrorCode::kBadFormat, "shows a time in a known format");
}

TEST_F(LinesOfLoops, ATimeThatIsSaidToHaveElapsedIsRead) {
  EXPECT_THAT(
      ms(lines(12, [](int i) { return fmt::format("Epoch {} finished, 12.{} s elapsed", i, i % 10); })),
      SizeIs(12));
}

}  // namespace
}  // namespace isochron::apps
