// The limits of the verdict on one series, tested from both sides.
#include "isochron/observe/statistics/series_verdict.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "isochron/observe/statistics/statistics.h"
#include "observe/statistics/synthetic.h"
#include "support/sanitizers.h"

namespace isochron::observe {
namespace {

using namespace synthetic;
using Values = std::vector<double>;
using testing::HasSubstr;
using testing::Not;

FlatnessVerdict judge_medians(const Values& medians, const FlatnessOptions& options = {}) {
  return judge_series({.medians = medians}, options);
}

/// The widest of the intervals asked for flat, one half of it.
double widest(const FlatnessVerdict& verdict) { return verdict.smallest_detectable_change; }

TEST(SeriesVerdict, FourWindowsSaySomething) {
  const Values windows(4, 1.0);
  EXPECT_EQ(judge_medians(windows, {.min_windows = 0}).kind, Flatness::kFlat);
  EXPECT_EQ(judge_medians({1, 1, 1}, {.min_windows = 0}).reason, "fewer than four windows");
}

TEST(SeriesVerdict, WarmupIsATenthAtMost) {
  const auto slow_for = [](double part) {
    return judge_medians(
        filled(200, [part](double p, Rng& rng) { return (p < part ? 3 : 1) * gaussian(rng, 0.01); }));
  };
  EXPECT_NEAR(slow_for(0.03).warmup_windows, 8, 2);
  EXPECT_NEAR(slow_for(0.09).warmup_windows, 19, 1);
  EXPECT_EQ(slow_for(0.15).warmup_windows, 20);
}

TEST(SeriesVerdict, ARiseAtTheBeginningIsWarmupOfMemoryButNotOfTimes) {
  const Values rises =
      filled(200, [](double p, Rng& rng) { return (p < 0.08 ? 0.3 : 1) * gaussian(rng, 0.01); });
  const FlatnessVerdict memory = judge_medians(rises), times = judge_medians(rises, {.rise_settles = false});
  EXPECT_EQ(memory.kind, Flatness::kFlat);
  EXPECT_GT(memory.warmup_change, 2);
  EXPECT_THAT(memory.reason,
              HasSubstr("iterations are left out as warm-up, after which the level changed by +2"));
  EXPECT_EQ(times.kind, Flatness::kGrowing);
  EXPECT_EQ(times.warmup_windows, 0);
  const Values settles =
      filled(200, [](double p, Rng& rng) { return (p < 0.08 ? 3 : 1) * gaussian(rng, 0.01); });
  EXPECT_GT(judge_medians(settles, {.rise_settles = false}).warmup_windows, 10);
  const Values even = filled(200, [](double, Rng& rng) { return gaussian(rng, 0.01); });
  EXPECT_THAT(judge_medians(even).reason, Not(HasSubstr("warm-up")));
}

TEST(SeriesVerdict, ALevelThatChangesAtOnceHasAPosition) {
  const Values jumps =
      filled(200, [](double p, Rng& rng) { return (p < 0.6 ? 1 : 1.2) * gaussian(rng, 0.01); });
  const FlatnessInput input{.medians = jumps, .iterations_per_window = 10};
  EXPECT_THAT(judge_series(input, {}).reason, testing::ContainsRegex("from about iteration 1[12][0-9]0 on"));
  const Values grows = filled(200, [](double p, Rng& rng) { return (1 + p) * gaussian(rng, 0.01); });
  EXPECT_THAT(judge_medians(grows).reason, Not(HasSubstr("from about")));
}

TEST(SeriesVerdict, WhatIsSurelyBeyondTheBoundIsntFlat) {
  using Asked = ChangeEstimate::Asked;
  FlatnessVerdict verdict;
  verdict.bound = 0.05;
  verdict.estimates = {{"trend of medians", 0.01, 0, 0.02},
                       {"last tenth of means", 0.07, 0.06, 0.08, Asked::kForChange}};
  const ChangeEstimate not_sure{"last tenth of means", 0.07, 0.04, 0.1, Asked::kForChange};
  decide(verdict, {verdict.estimates[0], not_sure});
  EXPECT_EQ(verdict.kind, Flatness::kInconclusive);
  EXPECT_EQ(verdict.largest.name, "last tenth of means");
  verdict.estimates[1] = {"last tenth of means", 0.05, 0.03, 0.07, Asked::kForChange};
  decide(verdict, verdict.estimates);
  EXPECT_EQ(verdict.kind, Flatness::kFlat);
}

TEST(SeriesVerdict, WarmupMayBeInTheMeansAlone) {
  const Values medians = filled(200, [](double, Rng& rng) { return gaussian(rng, 0.01); });
  Values means = medians;
  for (size_t i = 0; i < 14; ++i) means[i] += i % 2 == 0 ? 2 : 0;
  EXPECT_LE(judge_medians(medians).warmup_windows, 4);
  EXPECT_NEAR(judge_series({.medians = medians, .means = means}, {}).warmup_windows, 13, 1);
}

/// Verdicts on `runs` series that wander by `deviation` around a level, which grows by `growth`.
std::vector<FlatnessVerdict> judge_wandering(int runs, double growth, double deviation) {
  constexpr int kWindows = 64;
  constexpr double kLikeBefore = 0.9;
  std::vector<FlatnessVerdict> verdicts;
  for (int seed = 1; seed <= runs; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    Values medians;
    double wandering = rng.normal();
    for (int i = 0; i < kWindows; ++i) {
      medians.push_back((1 + growth * i / (kWindows - 1)) * std::exp(deviation * wandering));
      wandering = kLikeBefore * wandering + std::sqrt(1 - kLikeBefore * kLikeBefore) * rng.normal();
    }
    verdicts.push_back(judge_medians(medians));
  }
  return verdicts;
}

TEST(SeriesVerdict, GrowthByTimesIsFoundOnAMachineThatWanders) {
  const auto count = [](Flatness kind, double growth) {
    return std::ranges::count(judge_wandering(40, growth, 0.1), kind, &FlatnessVerdict::kind);
  };
  EXPECT_GE(count(Flatness::kGrowing, 3), 33);
  EXPECT_GE(count(Flatness::kGrowing, 5), 37);
  EXPECT_GE(count(Flatness::kShrinking, -0.8), 33);
  for (const double deviation : {0.1, 0.3}) {
    const std::vector<FlatnessVerdict> level = judge_wandering(kSanitizer ? 40 : 200, 0, deviation);
    for (const FlatnessVerdict& verdict : level)
      EXPECT_THAT(verdict.estimates,
                  Not(testing::Contains(testing::Field(&ChangeEstimate::name, "trend of eighths"))));
  }
}

TEST(SeriesVerdict, ARiseByHalfTheBoundIsNoSettling) {
  const auto rise = [](double size) {
    return judge_medians(
               filled(200,
                      [size](double p, Rng& rng) { return (p < 0.15 ? 1 : 1 + size) * gaussian(rng, 5e-4); }))
        .warmup_windows;
  };
  EXPECT_EQ(rise(0.02), 20) << "within half of the bound: it may be cut";
  EXPECT_EQ(rise(0.03), 0);
}

TEST(SeriesVerdict, WhereARunSettlesIsLookedForInItsFirstQuarter) {
  const auto warmup = [](const std::function<double(double, Rng&)>& value) {
    return judge_medians(filled(200, value)).warmup_windows;
  };
  // The best place is at 20 %, behind a beginning that was lower: what settles at 5 % isn't all.
  EXPECT_EQ(warmup([](double p, Rng& rng) {
              return (p < 0.05 ? 3 : p < 0.15 ? 1 : p < 0.2 ? 0.5 : 1.05) * gaussian(rng, 5e-4);
            }),
            0);
  // From 60 % on there is least noise, and a higher level: no end of what settles at 5 %.
  EXPECT_GE(warmup([](double p, Rng& rng) {
              return (p < 0.05 ? 3 : p < 0.6 ? 1 : 1.3) * gaussian(rng, p < 0.6 ? 0.15 : 1e-3);
            }),
            9);
}

/// Medians of 1; in each half of 128 windows the given number of windows has a mean beyond it.
FlatnessVerdict with_long_ones(size_t in_first, double first, size_t in_second, double second,
                               double bound = 0.05) {
  const Values medians(128, 1.0);
  Values means = medians;
  for (size_t i = 0; i < in_first; ++i) means[20 + 7 * i] += first;
  for (size_t i = 0; i < in_second; ++i) means[70 + 7 * i] += second;
  return judge_series({.medians = medians, .means = means}, {.bound = bound});
}

TEST(SeriesVerdict, LongIterationsOfAFewWindowsMayAddTwiceTheBoundInOneHalf) {
  // Two of each half are stalls, three remain of five: of 64 windows.
  const auto adding = [](double share) { return 64 * share / 3; };
  EXPECT_EQ(with_long_ones(0, 0, 5, adding(0.09)).kind, Flatness::kFlat);
  const FlatnessVerdict doubted = with_long_ones(0, 0, 5, adding(0.11));
  EXPECT_EQ(doubted.kind, Flatness::kInconclusive);
  EXPECT_THAT(doubted.reason,
              HasSubstr("long iterations add 0.0 % to the mean in the first half and 11.0 % in the second"));
  EXPECT_EQ(with_long_ones(5, adding(0.11), 0, 0).kind, Flatness::kInconclusive);
  EXPECT_EQ(with_long_ones(0, 0, 5, adding(0.11), 0.06).kind, Flatness::kFlat) << "of another bound";
}

TEST(SeriesVerdict, ADoubtStillTellsWhatIsLeftOutAsWarmup) {
  Values medians(150, 1.0);
  for (size_t i = 0; i < 8; ++i) medians[i] = 1.3;
  Values means = medians;
  for (size_t i = 0; i < 5; ++i) means[85 + 7 * i] += 71 * 0.2 / 3;
  const FlatnessVerdict doubted = judge_series({.medians = medians, .means = means}, {});
  EXPECT_EQ(doubted.kind, Flatness::kInconclusive);
  EXPECT_THAT(doubted.reason, HasSubstr("long iterations add 0.0 %"));
  EXPECT_THAT(doubted.reason, HasSubstr("; the first 8 iterations are left out as warm-up, after which the "
                                        "level changed by -23.08 %"));
}

TEST(SeriesVerdict, TwoWindowsOfAHalfAreStalls) {
  EXPECT_EQ(with_long_ones(0, 0, 2, 1e4).kind, Flatness::kFlat);
  EXPECT_EQ(with_long_ones(0, 0, 3, 1e4).kind, Flatness::kInconclusive);
}

TEST(SeriesVerdict, AlarmsAreFiveTimesRarerThanOtherErrors) {
  // The widths of the intervals before and after an alarm, of the same series.
  const Values noise = filled(64, [](double p, Rng& rng) { return drift(p, 0.5) * gaussian(rng, 0.03); });
  const auto width = [&](const FlatnessOptions& options) {
    const ChangeEstimate trend = judge_medians(noise, options).estimates.at(0);
    return trend.high - trend.low;
  };
  const double own = width({.bound = 10});
  const auto ratio = [](double joint, int degrees) {
    return student_quantile(1 - joint / 4, degrees) / student_quantile(0.9, degrees);
  };
  EXPECT_GT(width({}) / own, ratio(0.01, 61) - 1e-9);
  EXPECT_LT(width({}) / own, ratio(0.01, 25));
  EXPECT_GT(width({.series = 3}) / own, ratio(0.01 / 3, 61) - 1e-9);
  EXPECT_LT(width({.series = 3}) / own, ratio(0.01 / 3, 25));
}

TEST(SeriesVerdict, TheIterationsThatDecideAreTwoPointThreeTimesTheHalfOfRuns) {
  const Values noise = filled(64, [](double, Rng& rng) { return gaussian(rng, 0.1); });
  const double half_width = widest(judge_medians(noise, {.bound = 10}));
  const auto asked = [&](double factor) {  // the bound of which half takes so many times the run
    const FlatnessVerdict verdict = judge_medians(noise, {.bound = 2 * half_width * std::sqrt(2.3 / factor)});
    EXPECT_EQ(verdict.kind, Flatness::kInconclusive) << factor;
    return verdict.iterations_to_decide / 64;
  };
  EXPECT_NEAR(asked(40), 40, 0.5);
  EXPECT_NEAR(asked(9'000), 9'000, 50);
  EXPECT_TRUE(std::isinf(asked(11'000))) << "nobody runs ten thousand times as long";
}

TEST(SeriesVerdict, ATrendThroughAStepRaisesNoAlarm) {
  // A step of 1.2 times the bound: the trend through it is steeper, and known better.
  int alarms = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const FlatnessVerdict verdict = judge_medians(filled(
        128, [](double p, Rng& rng) { return step(p, 0.045) * gaussian(rng, 0.004); }, seed));
    EXPECT_GT(verdict.estimates.at(0).change, 0.05) << "trend";
    alarms += verdict.kind == Flatness::kGrowing;
  }
  EXPECT_EQ(alarms, 0);
}

TEST(SeriesVerdict, WhatComesBackIsNoChange) {
  const auto until = [](double end, double level_after) {
    return judge_medians(filled(128, [=](double p, Rng& rng) {
      return (p < 0.6 ? 1 : p < end ? 1.4 : level_after) * gaussian(rng, 0.01);
    }));
  };
  EXPECT_EQ(until(0.65, 1).kind, Flatness::kFlat);
  const FlatnessVerdict long_one = until(0.85, 1);  // most of what follows on the step up
  EXPECT_NE(long_one.kind, Flatness::kGrowing) << long_one.reason;
  const FlatnessVerdict partly = until(0.8, 1.15);
  EXPECT_EQ(partly.kind, Flatness::kGrowing) << partly.reason;
  EXPECT_NEAR(partly.largest.change, 0.15, 0.02);
}

/// Two waves over the run: what wanders, for the judgement.
FlatnessVerdict wandering(double wander, double noise, double waves) {
  return judge_medians(filled(64, [&](double p, Rng& rng) {
    return 1 + std::sqrt(2.0) * wander * std::sin(2 * std::numbers::pi * waves * p) + noise * rng.normal();
  }));
}

TEST(SeriesVerdict, ALevelThatWandersIsSaidTo) {
  constexpr const char* kWanders = "the level goes up and down by ";
  EXPECT_THAT(wandering(0.05, 0.001, 2).reason, HasSubstr(kWanders));
  EXPECT_THAT(wandering(0.08, 0.06, 3).reason, HasSubstr(kWanders)) << "also below some noise";
  EXPECT_THAT(wandering(0.016, 0.001, 2).reason, HasSubstr(kWanders)) << "a quarter of the bound";
  const FlatnessVerdict little = wandering(0.011, 0.001, 2);
  EXPECT_EQ(little.kind, Flatness::kInconclusive);
  EXPECT_THAT(little.reason, Not(HasSubstr(kWanders)));
  const FlatnessVerdict noisy = wandering(0.0, 0.2, 2);
  EXPECT_EQ(noisy.kind, Flatness::kInconclusive);
  EXPECT_THAT(noisy.reason, Not(HasSubstr(kWanders))) << "independent points don't wander";
}

TEST(SeriesVerdict, WhatTheCorrectionMayHaveDoneWidensIntervals) {
  const Values flat(128, 1.0);
  const Values before = filled(128, [](double p, Rng&) { return 1 + p; });
  const Values moved = filled(128, [](double p, Rng&) { return 1 + 0.03 * p; });
  const auto trend_width = [&](const Values& was, const Values& would_be) {
    const Correction correction{{.medians = was}, {.medians = would_be}};
    const ChangeEstimate trend = judge_series({.medians = flat}, {.bound = 10}, &correction).estimates.at(0);
    return trend.high;
  };
  EXPECT_NEAR(trend_width(flat, flat), 0, 1e-9);
  EXPECT_NEAR(trend_width(flat, moved), 0.03, 0.001);
  EXPECT_NEAR(trend_width(before, flat), 0.02, 0.002) << "a fiftieth of the correction";
}

}  // namespace
}  // namespace isochron::observe
