#include "isochron/observe/statistics/flatness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "isochron/core/base/error.h"
#include "observe/statistics/synthetic.h"

namespace isochron::observe {
namespace {

using namespace synthetic;
using ::testing::HasSubstr;
using ::testing::StartsWith;

FlatnessVerdict judge(const Series& series, const FlatnessOptions& options = {}) {
  return judge_flatness({.medians = series.medians, .means = series.means}, options);
}

FlatnessVerdict judge(const std::vector<double>& values, const FlatnessOptions& options = {}) {
  return judge_flatness({.medians = values}, options);
}

/// How often each verdict is reached over `runs` seeds of a run of 128 windows of 32 iterations.
struct Tally {
  int flat = 0, growing = 0, shrinking = 0, inconclusive = 0;
};
Tally tally(int runs, const std::function<Series(uint64_t seed)>& make) {
  Tally result;
  for (int run = 0; run < runs; ++run) {
    switch (judge(make(static_cast<uint64_t>(run) + 1), {.replicates = 199}).kind) {
      case Flatness::kFlat:
        ++result.flat;
        break;
      case Flatness::kGrowing:
        ++result.growing;
        break;
      case Flatness::kShrinking:
        ++result.shrinking;
        break;
      case Flatness::kInconclusive:
        ++result.inconclusive;
        break;
    }
  }
  return result;
}
Tally tally_iterations(int runs, const Duration& duration) {
  return tally(runs, [&](uint64_t seed) { return make_series(128, 32, seed, duration); });
}

constexpr int kSimulatedRuns = 20;

TEST(Flatness, NoChangeIsFlat) {
  EXPECT_EQ(tally_iterations(kSimulatedRuns, [](double, int, Rng& rng) { return gaussian(rng, 0.03); }).flat,
            kSimulatedRuns);
}

TEST(Flatness, DriftWithinTheBoundIsFlat) {
  EXPECT_EQ(tally_iterations(kSimulatedRuns,
                             [](double p, int, Rng& rng) { return drift(p, 0.01) * gaussian(rng, 0.03); })
                .flat,
            kSimulatedRuns);
}

TEST(Flatness, DriftBeyondTheBoundIsGrowing) {
  EXPECT_EQ(tally_iterations(kSimulatedRuns,
                             [](double p, int, Rng& rng) { return drift(p, 0.1) * gaussian(rng, 0.03); })
                .growing,
            kSimulatedRuns);
}

TEST(Flatness, ChangeThatIsToldIsOneThatDecided) {
  // The medians clearly grow. The means change by more, because of random spikes.
  int told = 0;
  for (uint64_t seed = 1; seed <= kSimulatedRuns; ++seed) {
    const FlatnessVerdict verdict = judge(make_series(128, 32, seed, [](double p, int, Rng& rng) {
      const bool spike = rng.uniform() < 0.01;
      return drift(p, 0.1) * gaussian(rng, 0.03) * (spike ? 30 : 1);
    }));
    if (verdict.kind != Flatness::kGrowing) continue;
    EXPECT_GT(verdict.largest.low, verdict.bound) << verdict_text(verdict);
    ++told;
  }
  EXPECT_GE(told, kSimulatedRuns / 2);
}

TEST(Flatness, DriftAtTheBoundIsLeftOpen) {
  const Tally said = tally_iterations(
      kSimulatedRuns, [](double p, int, Rng& rng) { return drift(p, 0.05) * gaussian(rng, 0.03); });
  EXPECT_GE(said.inconclusive, kSimulatedRuns - 3);
}

TEST(Flatness, StepIsGrowingAndItsPlaceIsTold) {
  const Series series =
      make_series(128, 32, 1, [](double p, int, Rng& rng) { return step(p, 0.1) * gaussian(rng, 0.03); });
  const FlatnessVerdict verdict = judge(series);
  EXPECT_EQ(verdict.kind, Flatness::kGrowing);
  EXPECT_NEAR(verdict.change_point + verdict.warmup_windows, 64, 2);
  EXPECT_LT(verdict.change_point_p, 1e-3);
}

TEST(Flatness, AnExcursionThatReturnsIsNoChange) {
  const auto with = [](double from, double to, double factor, double drift) {
    return [=](uint64_t seed) {
      return make_series(200, 10, seed, [=](double position, int, Rng& rng) {
        const double level = position >= from && position < to ? factor : 1;
        return level * (1 + drift * position) * gaussian(rng, 0.02);
      });
    };
  };
  for (const auto& [from, to] : {std::pair{0.4, 0.6}, {0.2, 0.4}, {0.3, 0.7}, {0.6, 0.8}, {0.35, 0.85}}) {
    for (const double factor : {3.0, 2.0, 1.3, 0.5}) {
      const Tally counts = tally(5, with(from, to, factor, 0));
      EXPECT_EQ(counts.growing + counts.shrinking, 0) << factor << " from " << from << " to " << to;
      EXPECT_EQ(counts.inconclusive, 5) << factor << " from " << from << " to " << to;
    }
  }
  EXPECT_EQ(tally(5, with(0.4, 0.6, 3, 0.3)).growing, 5) << "on a level that grows";
  EXPECT_THAT(
      judge(with(0.4, 0.6, 2, 0)(1)).reason,
      testing::ContainsRegex(
          "^between about iterations (79|8[0-3]) and (119|12[0-3]) the level was (99|100).. % higher; "));
}

TEST(Flatness, TwoStepsInOneDirectionAreNoExcursion) {
  for (const auto& [second, third] : {std::pair{1.5, 2.0}, {1.2, 1.3}, {0.8, 0.6}}) {
    const FlatnessVerdict verdict =
        judge(make_series(200, 10, 1, [second = second, third = third](double position, int, Rng& rng) {
          return (position < 0.3 ? 1 : position < 0.7 ? second : third) * gaussian(rng, 0.02);
        }));
    EXPECT_EQ(verdict.kind, third > 1 ? Flatness::kGrowing : Flatness::kShrinking);
    EXPECT_THAT(verdict.reason, testing::Not(HasSubstr("between about")));
  }
}

TEST(Flatness, AnExcursionFromNothingHasNoPercentage) {
  std::vector<double> count(200, 0.0);
  for (size_t i = 80; i < 120; ++i) count[i] = 5;
  EXPECT_THAT(judge(count).reason, testing::Not(HasSubstr("inf")));
}

TEST(Flatness, PositionsCountFromTheFirstIteration) {
  std::vector<double> values(200, 10.0);
  for (size_t i = 120; i < 200; ++i) values[i] = 15;
  const FlatnessVerdict verdict = judge_flatness(
      {.medians = values, .iterations_per_window = 10, .first_iteration = 5000, .unit = "value"});
  EXPECT_EQ(verdict.kind, Flatness::kGrowing);
  EXPECT_THAT(verdict.reason, testing::ContainsRegex(", from about value 6[12][0-9]0? on"));
}

TEST(Flatness, ChangeIsToldAtItsSize) {
  const auto told = [](double size, const Duration& duration) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const ChangeEstimate largest = judge(make_series(128, 32, seed, duration)).largest;
      EXPECT_NEAR(largest.change, size, 0.015) << largest.name << ", seed " << seed;
    }
  };
  told(0.2, [](double p, int, Rng& rng) { return step(p, 0.2) * gaussian(rng, 0.02); });
  told(-0.2, [](double p, int, Rng& rng) { return step(p, -0.2) * gaussian(rng, 0.02); });
  told(0.2 / 1.01, [](double p, int, Rng& rng) { return drift(p, 0.2) * gaussian(rng, 0.02); });
}

TEST(Flatness, InconclusiveSaysWhatIsMissing) {
  int seen = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const double size = 0.001 * static_cast<double>(seed);
    const Series series = make_series(
        128, 32, seed, [size](double p, int, Rng& rng) { return step(p, size) * gaussian(rng, 0.08); });
    for (const double bound : {0.05, 1e-9}) {
      const FlatnessVerdict verdict = judge(series, {.bound = bound});
      if (verdict.kind != Flatness::kInconclusive) continue;
      ++seen;
      EXPECT_GT(verdict.iterations_to_decide, 128);
      EXPECT_TRUE(verdict.iterations_to_decide <= 128e4 || !std::isfinite(verdict.iterations_to_decide));
      for (const ChangeEstimate& one : verdict.estimates) {
        if (one.asked == ChangeEstimate::Asked::kForFlat) continue;
        EXPECT_TRUE(one.low <= bound && one.high >= -bound) << one.name << " lies beyond, seed " << seed;
      }
    }
  }
  EXPECT_GT(seen, 20);
}

TEST(Flatness, DecreaseIsShrinking) {
  EXPECT_EQ(tally_iterations(kSimulatedRuns,
                             [](double p, int, Rng& rng) { return drift(p, -0.1) * gaussian(rng, 0.03); })
                .shrinking,
            kSimulatedRuns);
}

TEST(Flatness, PeriodicSpikesAreFlat) {
  const Tally said = tally_iterations(
      kSimulatedRuns, [](double, int i, Rng& rng) { return (i % 10 == 9 ? 5 : 1) * gaussian(rng, 0.03); });
  EXPECT_EQ(said.growing + said.shrinking, 0);
  EXPECT_GE(said.flat, kSimulatedRuns - 2);
}

TEST(Flatness, GrowthBetweenLongIterationsIsRelativeToTheUsualOnes) {
  const auto verdict = [](double change) {
    const Series each = make_series(200, 1, 1, [change](double p, int i, Rng& rng) {
      return gaussian(rng, 0.02) * (i % 25 == 0 ? 60 : drift(p, change));
    });
    return judge(each);
  };
  EXPECT_EQ(verdict(0).kind, Flatness::kFlat);
  EXPECT_EQ(verdict(0.15).kind, Flatness::kGrowing);
  EXPECT_THAT(std::string(verdict(0.15).largest.name), HasSubstr("of medians"));
  EXPECT_NEAR(verdict(0.15).largest.change, 0.15, 0.03);
}

TEST(Flatness, GrowingRareSpikesAreSeenThoughMediansHideThem) {
  const Series series = make_series(128, 256, 1, [](double p, int, Rng& rng) {
    return gaussian(rng, 0.03) + (rng.uniform() < 0.03 ? 10 * p : 0);
  });
  EXPECT_EQ(judge(series).kind, Flatness::kGrowing);
  EXPECT_THAT(std::string(judge(series).largest.name), HasSubstr("of means"));
  EXPECT_EQ(judge(series.medians).kind, Flatness::kFlat);
}

TEST(Flatness, HeavyTailsRaiseNoFalseAlarm) {
  const Tally said =
      tally_iterations(3 * kSimulatedRuns, [](double, int, Rng& rng) { return heavy(rng, 0.05, 0.02); });
  EXPECT_LE(said.growing + said.shrinking, 1);
}

TEST(Flatness, AutocorrelatedNoiseRaisesNoFalseAlarm) {
  const Tally said = tally(3 * kSimulatedRuns, [](uint64_t seed) {
    Autoregressive ar(0.9, 0.02);
    double factor = 1;
    return make_series(128, 8, seed, [&](double, int i, Rng& rng) {
      if (i % 8 == 0) factor = ar(rng);
      return factor * gaussian(rng, 0.02);
    });
  });
  EXPECT_LE(said.growing + said.shrinking, 1);
}

TEST(Flatness, StrongNoiseIsInconclusiveAndSaysHowLongItTakes) {
  const auto noisy = [](int per_window) {
    return judge(make_series(128, per_window, 5, [](double, int, Rng& rng) { return gaussian(rng, 0.5); }));
  };
  const FlatnessVerdict brief = noisy(8);
  EXPECT_EQ(brief.kind, Flatness::kInconclusive);
  EXPECT_GT(brief.smallest_detectable_change, 0.05);
  EXPECT_GT(brief.iterations_to_decide, 128);
  EXPECT_FALSE(brief.reason.empty());
  EXPECT_EQ(noisy(8 * 200).kind, Flatness::kFlat);  // the promised number of iterations is enough
}

TEST(Flatness, ConstantSeriesIsFlatWithoutVariance) {
  const FlatnessVerdict verdict = judge(std::vector<double>(64, 17.0));
  EXPECT_EQ(verdict.kind, Flatness::kFlat);
  EXPECT_DOUBLE_EQ(verdict.largest.high, 0);
  EXPECT_EQ(judge(std::vector<double>(64, 0.0)).kind, Flatness::kFlat);
}

TEST(Flatness, ExactlyLinearCountIsGrowing) {
  std::vector<double> from_zero;
  std::vector<double> from_thousand;
  for (int i = 0; i < 100; ++i) {
    from_zero.push_back(i);
    from_thousand.push_back(1000 + i);
  }
  EXPECT_EQ(judge(from_zero).kind, Flatness::kGrowing);
  const FlatnessVerdict verdict = judge(from_thousand);
  EXPECT_EQ(verdict.kind, Flatness::kGrowing);
  EXPECT_NEAR(verdict.slope, 1, 1e-9);
  EXPECT_EQ(verdict.warmup_windows, 0);
}

TEST(Flatness, CurvedGrowthIsGrowing) {
  std::vector<double> quadratic;
  std::vector<double> exponential;
  for (int i = 0; i < 128; ++i) {
    quadratic.push_back(1 + 1e-4 * i * i);
    exponential.push_back(std::exp(0.02 * i));
  }
  EXPECT_EQ(judge(quadratic).kind, Flatness::kGrowing);
  EXPECT_EQ(judge(exponential).kind, Flatness::kGrowing);
}

TEST(Flatness, GrowthFromZeroIsGrowing) {
  std::vector<double> values(50, 0.0);
  values.resize(100, 12.0);
  EXPECT_EQ(judge(values).kind, Flatness::kGrowing);
  std::vector<double> once(100, 3.0);
  once[40] = 4;  // for a moment only
  EXPECT_EQ(judge(once).kind, Flatness::kFlat);
}

TEST(Flatness, SettlingIsWarmupAndNoShrinking) {
  const Series series = make_series(
      128, 32, 2, [](double p, int, Rng& rng) { return (1 + (p < 0.06 ? 0.5 : 0)) * gaussian(rng, 0.02); });
  const FlatnessVerdict verdict = judge(series);
  EXPECT_EQ(verdict.kind, Flatness::kFlat);
  EXPECT_NEAR(verdict.warmup_windows, 8, 2);
}

TEST(Flatness, WhatRisesAfterTheFirstTenthIsNoSettling) {
  for (const double at : {0.105, 0.12, 0.14, 0.18}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const auto rises = [at](double p, int, Rng& rng) { return (p < at ? 1 : 1.3) * gaussian(rng, 0.02); };
      const FlatnessVerdict verdict = judge(make_series(200, 16, seed, rises));
      EXPECT_EQ(verdict.kind, Flatness::kGrowing) << at << ", seed " << seed << ": " << verdict.reason;
      EXPECT_NEAR(verdict.largest.change, 0.3, 0.02) << at << ", seed " << seed;
    }
  }
  const auto slow_at_first = [](double p, int, Rng& rng) {
    return (1 + 2 * std::exp(-p / 0.03)) * gaussian(rng, 0.02);
  };
  EXPECT_EQ(judge(make_series(200, 16, 1, slow_at_first)).kind, Flatness::kFlat);
}

TEST(Flatness, LongIterationsThatGrowAreGrowth) {
  const auto spikes = [](double from, double to, int every) {
    return judge(make_series(256, 12, 1, [=](double p, int i, Rng& rng) {
      return gaussian(rng, 0.02) + (i % every == every / 2 ? from + (to - from) * p : 0);
    }));
  };
  EXPECT_EQ(spikes(0, 100, 50).kind, Flatness::kGrowing);
  EXPECT_EQ(spikes(100, 0, 50).kind, Flatness::kShrinking);
  EXPECT_EQ(spikes(50, 50, 50).kind, Flatness::kFlat);
  EXPECT_EQ(spikes(500, 500, 300).kind, Flatness::kFlat);
  EXPECT_EQ(spikes(0, 500, 400).kind, Flatness::kGrowing);
  const FlatnessVerdict few = spikes(0, 2000, 500);
  EXPECT_EQ(few.kind, Flatness::kInconclusive) << few.reason;
  EXPECT_THAT(few.reason, HasSubstr("long iterations add"));
  const FlatnessVerdict stall = judge(make_series(
      256, 12, 1, [](double, int i, Rng& rng) { return gaussian(rng, 0.02) + (i == 2500 ? 500 : 0); }));
  EXPECT_EQ(stall.kind, Flatness::kFlat) << stall.reason;
}

TEST(Flatness, NeedsWindowsAndSeconds) {
  const std::vector<double> few(63, 1.0);
  const FlatnessVerdict short_verdict = judge(few);
  EXPECT_EQ(short_verdict.kind, Flatness::kInconclusive);
  EXPECT_THAT(short_verdict.reason, StartsWith("too short: 63 windows"));
  EXPECT_DOUBLE_EQ(short_verdict.iterations_to_decide, 64);

  const std::vector<double> enough(64, 1.0);
  const auto timed = [&](double seconds) {
    return judge_flatness({.medians = enough, .iterations_per_window = 10, .seconds = seconds});
  };
  EXPECT_EQ(timed(1.0).kind, Flatness::kInconclusive);
  EXPECT_DOUBLE_EQ(timed(1.0).iterations_to_decide, 1280);
  EXPECT_EQ(timed(2.0).kind, Flatness::kFlat);
  EXPECT_EQ(judge(std::vector<double>{}).kind, Flatness::kInconclusive);
  EXPECT_EQ(judge(std::vector<double>{1, 2}, {.min_windows = 2}).kind, Flatness::kInconclusive);
}

TEST(Flatness, WanderingLevelsAreSaidToWander) {
  int wandering = 0;
  for (uint64_t seed = 1; seed <= kSimulatedRuns; ++seed) {
    bool slow = false;
    const FlatnessVerdict verdict = judge(make_series(128, 32, seed, [&](double, int, Rng& rng) {
      if (rng.uniform() < 30.0 / (128 * 32)) slow = !slow;
      return (slow ? 1.2 : 1) * gaussian(rng, 0.03);
    }));
    EXPECT_NE(verdict.kind, Flatness::kFlat) << seed;
    wandering += verdict.kind == Flatness::kInconclusive &&
                 verdict.reason.find("the level goes up and down") != std::string::npos;
  }
  EXPECT_GE(wandering, kSimulatedRuns - 2);
}

TEST(Flatness, ClassWithLittleOfTheTimeHasAWiderBound) {
  const Series steady = make_series(128, 32, 1, [](double, int, Rng& rng) { return gaussian(rng, 0.005); });
  const Series grows =
      make_series(128, 32, 2, [](double p, int, Rng& rng) { return drift(p, 0.12) * gaussian(rng, 0.005); });
  const auto kind = [&](double share) {
    const std::vector<ClassInput> classes = {{{.medians = steady.medians, .means = steady.means}, 1 - share},
                                             {{.medians = grows.medians, .means = grows.means}, share}};
    return judge_classes(classes).kind;
  };
  EXPECT_EQ(kind(0.5), Flatness::kGrowing);
  EXPECT_EQ(kind(0.1), Flatness::kGrowing);
  EXPECT_EQ(kind(0.03), Flatness::kFlat);
  const auto kind_of_hardly_any = [&](double change) {  // then five times the bound
    const Series own = make_series(
        128, 32, 2, [change](double p, int, Rng& rng) { return step(p, change) * gaussian(rng, 0.005); });
    const std::vector<ClassInput> classes = {{{.medians = steady.medians, .means = steady.means}, 0.999},
                                             {{.medians = own.medians, .means = own.means}, 0.001}};
    return judge_classes(classes).kind;
  };
  EXPECT_EQ(kind_of_hardly_any(0.15), Flatness::kFlat);
  EXPECT_EQ(kind_of_hardly_any(0.4), Flatness::kGrowing);
}

TEST(Flatness, ClassesAreJudgedWithinThemselves) {
  // Two classes, each flat, whose mixture would shift: judged apart they are flat.
  const Series fast = make_series(128, 32, 1, [](double, int, Rng& rng) { return gaussian(rng, 0.02); });
  const Series slow = make_series(128, 32, 2, [](double, int, Rng& rng) { return 8 * gaussian(rng, 0.02); });
  const Series grown =
      make_series(128, 32, 3, [](double p, int, Rng& rng) { return drift(p, 0.2) * gaussian(rng, 0.02); });
  const auto class_of = [](const Series& series, double share) {
    return ClassInput{{.medians = series.medians, .means = series.means}, share};
  };
  EXPECT_EQ(judge_classes(std::vector{class_of(fast, 0.4), class_of(slow, 0.6)}).kind, Flatness::kFlat);
  EXPECT_EQ(judge_classes(std::vector{class_of(fast, 0.4), class_of(grown, 0.6)}).kind, Flatness::kGrowing);
  Series odd = slow;
  odd.medians.resize(20);
  odd.means.resize(20);
  EXPECT_EQ(judge_classes(std::vector{class_of(fast, 0.97), class_of(odd, 0.03)}).kind, Flatness::kFlat);
  EXPECT_EQ(judge_classes(std::vector{class_of(fast, 0.5), class_of(odd, 0.5)}).kind,
            Flatness::kInconclusive);
  EXPECT_THROW(judge_classes({}), Error);
}

TEST(Flatness, RejectsBadInput) {
  const auto code_of = [](const FlatnessInput& input, const FlatnessOptions& options = {}) {
    try {
      judge_flatness(input, options);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kUnsupported;
  };
  const std::vector<double> good(64, 1.0);
  std::vector<double> nan = good;
  nan[7] = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> negative = good;
  negative[7] = -1;
  const std::vector<double> shorter(63, 1.0);
  EXPECT_EQ(code_of({.medians = nan}), ErrorCode::kNotANumber);
  EXPECT_EQ(code_of({.medians = good, .means = nan}), ErrorCode::kNotANumber);
  EXPECT_EQ(code_of({.medians = negative}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.medians = good, .means = shorter}), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code_of({.medians = good, .quiet_medians = good, .quiet_means = good, .quiet_shares = shorter}),
            ErrorCode::kShapeMismatch);
  EXPECT_EQ(code_of({.medians = good, .quiet_medians = good}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.medians = good}, {.bound = 0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.medians = good}, {.confidence = 1}), ErrorCode::kInvalidArgument);
}

TEST(Flatness, SameInputSameVerdict) {
  const Series series = make_series(128, 32, 1, [](double, int, Rng& rng) { return heavy(rng, 0.05, 0.02); });
  EXPECT_EQ(judge(series).largest.low, judge(series).largest.low);
  EXPECT_EQ(verdict_text(judge(series)), verdict_text(judge(series)));
}

}  // namespace
}  // namespace isochron::observe
