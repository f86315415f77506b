#include "isochron/observe/statistics/few_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isochron/core/base/rng.h"
#include "support/expect_error.h"

namespace isochron::observe {
namespace {

using testing::HasSubstr;

/// Over all orders of n numbers, the share whose interval doesn't contain 0: how often a trend is reported
/// although there is none.
double share_of_trends(int n, double confidence) {
  std::vector<double> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 1);
  int trends = 0, all = 0;
  do {
    const auto interval = theil_sen_interval(values, confidence);
    trends += interval && (interval->low > 0 || interval->high < 0);
    ++all;
  } while (std::next_permutation(values.begin(), values.end()));
  return static_cast<double>(trends) / all;
}

TEST(FewValues, TheIntervalIsExactOverAllOrders) {
  // From the tables of Kendall's S: of five, P(S = 10) = 1/120; of six, P(S >= 13) = 0.008, P(S >= 11) =
  // 0.028; of seven, P(S >= 15) = 0.015, P(S >= 13) = 0.035.
  EXPECT_NEAR(share_of_trends(5, 0.95), 2.0 / 120, 1e-9);
  EXPECT_NEAR(share_of_trends(6, 0.95), 2 * 0.0083, 1e-3);
  EXPECT_NEAR(share_of_trends(6, 0.90), 2 * 0.028, 1e-3);
  EXPECT_NEAR(share_of_trends(7, 0.95), 2 * 0.0151, 1e-3);
  EXPECT_EQ(theil_sen_interval(std::vector<double>{1, 2, 3, 4}, 0.95), std::nullopt);
  EXPECT_ERROR(static_cast<void>(theil_sen_interval(std::vector<double>{1, 2}, 1)),
               ErrorCode::kInvalidArgument, "confidence");
}

TEST(FewValues, TheIntervalLiesBetweenSlopes) {
  // Slopes of neighbors 1, 2, -1, 3, of the others 3/2, 1/2, 1, 2/3, 4/3, 5/4: the outermost at 95 %.
  const auto interval = theil_sen_interval(std::vector<double>{0, 1, 3, 2, 5}, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_DOUBLE_EQ(interval->low, -1);
  EXPECT_DOUBLE_EQ(interval->high, 3);
}

using Noise = double (*)(Rng&);
double gaussian_noise(Rng& rng) { return rng.normal(); }
/// Of infinite variance: one epoch in thirty takes several times as long.
double heavy_noise(Rng& rng) { return rng.uniform() < 0.03 ? 100 / (0.1 + rng.uniform()) : rng.normal(); }

constexpr int kManySeries = 2000;
struct FewValuesTally {
  int flat = 0, growing = 0, shrinking = 0;
};
/// Of kManySeries series of n values that change by `change` in all.
FewValuesTally tally_few(size_t n, double change, double deviation, Noise noise) {
  Rng rng(11, n);
  FewValuesTally tally;
  std::vector<double> values(n);
  for (int series = 0; series < kManySeries; ++series) {
    for (size_t i = 0; i < n; ++i) {
      const double position = static_cast<double>(i) / static_cast<double>(n - 1);
      values[i] = 1e6 * (1 + change * position) * std::max(0.05, 1 + deviation * noise(rng));
    }
    const Flatness kind = judge_few_values(values).kind;
    tally.flat += kind == Flatness::kFlat;
    tally.growing += kind == Flatness::kGrowing;
    tally.shrinking += kind == Flatness::kShrinking;
  }
  return tally;
}

struct Case {
  const char* name;
  size_t n;
  Noise noise;
};
class FewValuesRates : public testing::TestWithParam<Case> {};

TEST_P(FewValuesRates, FalseAlarmsAreRare) {
  const auto& [name, n, noise] = GetParam();
  constexpr int kRare = kManySeries / 20;
  for (const double deviation : {0.005, 0.03, 0.2}) {
    const FewValuesTally none = tally_few(n, 0, deviation, noise);
    EXPECT_LE(none.growing + none.shrinking, kRare) << "no change, deviation " << deviation;
    EXPECT_LE(tally_few(n, 0.04, deviation, noise).growing, kRare)
        << "within the bound, deviation " << deviation;
    EXPECT_LE(tally_few(n, 0.06, deviation, noise).flat, kRare)
        << "beyond the bound, deviation " << deviation;
  }
}

TEST_P(FewValuesRates, WhatIsPlainIsFound) {
  const auto& [name, n, noise] = GetParam();
  const int expected = noise == gaussian_noise ? kManySeries : kManySeries * 9 / 10;
  EXPECT_GE(tally_few(n, 1, 0.03, noise).growing, expected);
  EXPECT_GE(tally_few(n, -0.5, 0.03, noise).shrinking, expected);
  EXPECT_GE(tally_few(n, 0, 0.005, noise).flat, expected);
}

INSTANTIATE_TEST_SUITE_P(All, FewValuesRates,
                         testing::Values(Case{"ten", 10, gaussian_noise}, Case{"thirty", 30, gaussian_noise},
                                         Case{"ten_heavy", 10, heavy_noise},
                                         Case{"thirty_heavy", 30, heavy_noise}),
                         [](const auto& one) { return one.param.name; });

TEST(FewValues, OneOutlierDecidesNothing) {
  for (const size_t n : {5, 6, 7, 8, 10, 20, 63}) {
    for (size_t at = 0; at < n; ++at) {
      std::vector<double> values(n, 100);
      for (size_t i = 0; i < n; ++i) values[i] += 0.01 * static_cast<double>(i % 3);
      values[at] = 500;
      const FlatnessVerdict verdict = judge_few_values(values);
      EXPECT_NE(verdict.kind, Flatness::kGrowing) << n << " values, outlier at " << at;
      EXPECT_NE(verdict.kind, Flatness::kShrinking) << n << " values, outlier at " << at;
      if (n < 10) continue;
      EXPECT_EQ(verdict.kind, Flatness::kFlat) << n << " values, outlier at " << at;
    }
  }
}

/// `n` values with a little noise that are `factor` times as large from `begin` to `end`.
std::vector<double> with_other_level(size_t n, size_t begin, size_t end, double factor) {
  Rng rng(11, n + begin);
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = (i < begin || i >= end ? 1 : factor) * (1 + 0.005 * rng.normal());
  return values;
}

TEST(FewValues, AStepThatLastsIsGrowthWhereverItIs) {
  for (const auto& [n, before] : {std::pair{60, 15}, {60, 30}, {60, 45}, {50, 14}, {30, 10}, {20, 8}}) {
    const FlatnessVerdict verdict = judge_few_values(with_other_level(n, before, n, 1.5));
    EXPECT_EQ(verdict.kind, Flatness::kGrowing) << n << " values, from " << before;
    EXPECT_NEAR(verdict.largest.change, 0.5, 0.01);
    EXPECT_GT(verdict.largest.low, 0.45);
    EXPECT_LT(verdict.largest.high, 0.55);
    EXPECT_EQ(verdict.iterations_to_decide, 0);
    EXPECT_EQ(judge_few_values(with_other_level(n, n - n / 4, n, 0.6)).kind, Flatness::kShrinking) << n;
  }
}

TEST(FewValues, AStepThatMayBeChanceIsNamed) {
  for (const auto& [n, before] : {std::pair{10, 7}, {20, 18}}) {
    const FlatnessVerdict verdict = judge_few_values(with_other_level(n, before, n, 1.5));
    EXPECT_EQ(verdict.kind, Flatness::kInconclusive);
    EXPECT_THAT(verdict.reason,
                testing::StartsWith(fmt::format("the last {} values differ by +", n - before)));
    EXPECT_LE(verdict.iterations_to_decide, std::max(2 * n, 16));
  }
}

TEST(FewValues, AStepThatIsTakenBackIsNoGrowth) {
  for (const auto& [begin, end] : {std::pair{12, 54}, {20, 40}, {30, 50}, {12, 50}}) {
    const Flatness up = judge_few_values(with_other_level(60, begin, end, 1.5)).kind;
    EXPECT_NE(up, Flatness::kGrowing) << begin << " to " << end;
    EXPECT_NE(up, Flatness::kShrinking) << begin << " to " << end;
  }
  std::vector<double> after_warmup = with_other_level(30, 20, 29, 1.34);
  for (size_t i = 0; i < 3; ++i)
    after_warmup[i] /= 1.5;  // so that the end is above the beginning all the same
  EXPECT_NE(judge_few_values(after_warmup).kind, Flatness::kGrowing);
}

TEST(FewValues, ADipOrARiseAtTheBeginningIsNoStep) {
  for (const size_t until : {16, 30, 40, 50}) {
    for (const double factor : {0.6, 1.5}) {
      const Flatness kind = judge_few_values(with_other_level(60, 7, until, factor)).kind;
      EXPECT_NE(kind, Flatness::kGrowing) << factor << " until " << until;
      EXPECT_NE(kind, Flatness::kShrinking) << factor << " until " << until;
    }
  }
}

TEST(FewValues, AStepBelowTheBoundIsNoGrowthThoughTheTrendIsSteeper) {
  Rng rng(5);
  int growing = 0;
  for (int series = 0; series < 200; ++series) {
    std::vector<double> values(63);
    for (size_t i = 0; i < 63; ++i) values[i] = (i < 35 ? 1 : 1.045) * (1 + 0.01 * rng.normal());
    growing += judge_few_values(values).kind == Flatness::kGrowing;
  }
  EXPECT_LE(growing, 10);
}

TEST(FewValues, LevelsThatWanderHaveSeldomAStep) {
  Rng rng(3);
  int steps = 0;
  for (int series = 0; series < 500; ++series) {
    std::vector<double> values(60);
    double level = 0;
    for (double& value : values) {
      level = 0.9 * level + 0.03 * rng.normal();
      value = 100 * std::exp(level);
    }
    const FlatnessVerdict verdict = judge_few_values(values);
    steps += (verdict.kind == Flatness::kGrowing || verdict.kind == Flatness::kShrinking) &&
             verdict.largest.name == "change point";
  }
  EXPECT_LE(steps, 5);
}

TEST(FewValues, AFallAtTheBeginningSettles) {
  std::vector<double> settles(60, 1.0);
  for (size_t i = 0; i < 12; ++i) settles[i] = 1.5;
  EXPECT_EQ(judge_few_values(settles).kind, Flatness::kFlat) << "a fall at the beginning";
}

TEST(FewValues, AStepLateInTheRunIsNotFlat) {
  Rng rng(7);
  for (const size_t n : {20, 30, 40, 63}) {
    for (const double share : {0.1, 0.15}) {
      for (const double step : {0.5, -0.4, 0.08}) {
        for (const bool with_outlier : {false, true}) {
          std::vector<double> values(n);
          const auto last = static_cast<size_t>(std::llround(share * static_cast<double>(n)));
          for (size_t i = 0; i < n; ++i)
            values[i] = 100 * (1 + 0.005 * rng.normal()) * (i + last >= n ? 1 + step : 1);
          if (with_outlier && n < 40) continue;  // of so few values it can't be told from the step
          if (with_outlier) values[n / 2] = step > 0 ? 200 : 50;
          const FlatnessVerdict verdict = judge_few_values(values);
          EXPECT_NE(verdict.kind, Flatness::kFlat) << n << " values, the last " << last << " at " << step;
        }
      }
    }
  }
  std::vector<double> values(63, 10.0);
  for (size_t i = 53; i < 63; ++i) values[i] = 15;
  const FlatnessVerdict verdict = judge_few_values(values);
  EXPECT_EQ(verdict.kind, Flatness::kGrowing);
  EXPECT_EQ(verdict.reason, "the last 10 values are 50.0 % above those before");
}

TEST(FewValues, TheFirstTenthIsWarmUp) {
  std::vector<double> values(30, 100);
  for (size_t i = 0; i < 3; ++i) values[i] = 900;
  for (size_t i = 0; i < 30; ++i) values[i] += static_cast<double>(i % 2);
  const FlatnessVerdict verdict = judge_few_values(values);
  EXPECT_EQ(verdict.kind, Flatness::kFlat);
  EXPECT_EQ(verdict.warmup_windows, 3);
  EXPECT_EQ(verdict.windows, 27);
}

TEST(FewValues, ADoublingIsToldAsOne) {
  std::vector<double> values;
  for (int i = 0; i <= 10; ++i) values.push_back(100 * std::exp2((i - 1) / 9.0));
  const FlatnessVerdict verdict = judge_few_values(values);
  EXPECT_EQ(verdict.kind, Flatness::kGrowing);
  EXPECT_NEAR(verdict.largest.change, 1, 1e-9);
  EXPECT_DOUBLE_EQ(verdict.first_tenth, 100);
  EXPECT_DOUBLE_EQ(verdict.last_tenth, 200);
  EXPECT_NEAR(verdict.slope, 100 / 9.0, 1e-6);
  EXPECT_EQ(verdict.iterations_to_decide, 0);
  EXPECT_EQ(verdict.reason, "the trend is +100.00 %, above +5.0 %");
}

TEST(FewValues, WhatIsInconclusiveSaysHowManyWouldDecide) {
  Rng rng(5);
  std::vector<double> values;
  for (int i = 0; i < 12; ++i) values.push_back(100 * (1 + 0.1 * rng.normal()));
  const FlatnessVerdict verdict = judge_few_values(values);
  EXPECT_EQ(verdict.kind, Flatness::kInconclusive);
  EXPECT_THAT(verdict.reason, HasSubstr("the change may be"));
  EXPECT_LT(verdict.largest.low, verdict.largest.change);
  EXPECT_GT(verdict.largest.high, verdict.largest.change);
  EXPECT_GT(verdict.iterations_to_decide, 12);
  EXPECT_LT(verdict.iterations_to_decide, 1e5);
}

TEST(FewValues, TooFewAreNotJudged) {
  const FlatnessVerdict four = judge_few_values(std::vector<double>{1, 2, 3, 4});
  EXPECT_EQ(four.kind, Flatness::kInconclusive);
  EXPECT_EQ(four.reason, "too few values: 4, and 5 are needed");
  EXPECT_EQ(four.iterations_to_decide, 6);
  EXPECT_EQ(judge_few_values({}).kind, Flatness::kInconclusive);
  EXPECT_EQ(judge_few_values(std::vector<double>{1, 1, 1, 1, 1}).kind, Flatness::kFlat);
  const FlatnessVerdict five = judge_few_values(std::vector<double>{1, 1, 2, 3, 4});
  EXPECT_EQ(five.kind, Flatness::kInconclusive) << "growth of four values may be chance: 1 in 24";
  EXPECT_THAT(five.reason, HasSubstr("too few"));
  EXPECT_EQ(five.iterations_to_decide, 6);
}

TEST(FewValues, RejectsWhatIsNoTime) {
  EXPECT_ERROR(static_cast<void>(judge_few_values(std::vector<double>{1, 2, 0, 4, 5})),
               ErrorCode::kInvalidArgument, "value 2 is 0");
  EXPECT_ERROR(static_cast<void>(judge_few_values(std::vector<double>{1, 2, 3, 4, std::nan("")})),
               ErrorCode::kInvalidArgument, "value 4 is nan");
  EXPECT_ERROR(static_cast<void>(judge_few_values(std::vector<double>(1001, 1.0))),
               ErrorCode::kInvalidArgument, "1001 values");
  EXPECT_ERROR(static_cast<void>(judge_few_values(std::vector<double>(9, 1.0), {.bound = 0})),
               ErrorCode::kInvalidArgument, "bound > 0");
}

}  // namespace
}  // namespace isochron::observe
