#include "isochron/observe/statistics/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "isochron/core/base/error.h"
#include "observe/statistics/synthetic.h"
#include "support/expect_error.h"

namespace isochron::observe {
namespace {

std::vector<double> noise(int n, uint64_t seed, double rho = 0) {
  Rng rng(seed);
  std::vector<double> values;
  double value = rng.normal();
  for (int i = 0; i < n; ++i) {
    value = rho * value + std::sqrt(1 - rho * rho) * rng.normal();
    values.push_back(value);
  }
  return values;
}

TEST(Statistics, QuantilesInterpolateAsType7) {
  const std::vector<double> values{3, 1, 2, 4};
  EXPECT_DOUBLE_EQ(median(values), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(mean(values), 2.5);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{5, 1, 9}), 5);
}

TEST(Statistics, MidmeanIgnoresWildValues) {
  EXPECT_DOUBLE_EQ(trimmed_mean(std::vector<double>{1, 2, 3, 1e9}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(trimmed_mean(std::vector<double>{7}, 0.25), 7);
}

TEST(Statistics, RejectsEmptyAndOutOfRange) {
  const auto code_of = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kUnsupported;
  };
  EXPECT_EQ(code_of([] { median({}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { quantile(std::vector<double>{1}, 1.5); }), ErrorCode::kOutOfRange);
  EXPECT_EQ(code_of([] { mann_kendall(std::vector<double>{1, 2, 3}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { pettitt(std::vector<double>{1, 2, 3}, 2); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { autocorrelation(std::vector<double>{1}, -1); }), ErrorCode::kOutOfRange);
}

TEST(Statistics, RanksShareTies) {
  EXPECT_EQ(ranks(std::vector<double>{10, 20, 10, 5}), (std::vector<double>{2.5, 4, 2.5, 1}));
}

TEST(TheilSen, IsExactOnALineAndDeafToOutliers) {
  std::vector<double> values;
  for (int i = 0; i < 50; ++i) values.push_back(3 + 0.25 * i);
  for (int i = 0; i < 50; i += 5) values[static_cast<size_t>(i)] += 1000;
  const Line line = theil_sen(values);
  EXPECT_NEAR(line.slope, 0.25, 1e-12);
  EXPECT_NEAR(line.intercept, 3, 1e-12);
}

TEST(MannKendall, MatchesTheTextbookForIndependentValues) {
  // n = 10, no ties, every pair concordant but one: S = 43, Var(S) = 10 * 9 * 25 / 18 = 125.
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 10, 9};
  const MannKendall test = mann_kendall(values);
  EXPECT_DOUBLE_EQ(test.tau, 43.0 / 45);
  EXPECT_NEAR(test.plain_p_value, std::erfc(42 / std::sqrt(125.0) / std::sqrt(2.0)), 1e-12);
}

TEST(MannKendall, FindsNoTrendInAConstant) {
  EXPECT_DOUBLE_EQ(mann_kendall(std::vector<double>(20, 4.0)).p_value, 1);
}

TEST(MannKendall, CorrectionHoldsTheFalseAlarmsOfAutocorrelatedNoiseDown) {
  int plain = 0;
  int corrected = 0;
  constexpr int kRuns = 300;
  for (int run = 0; run < kRuns; ++run) {
    const MannKendall test = mann_kendall(noise(100, static_cast<uint64_t>(run), 0.5));
    plain += test.plain_p_value < 0.05;
    corrected += test.p_value < 0.05;
  }
  EXPECT_GT(plain, kRuns / 5);
  EXPECT_LT(corrected, kRuns / 7);
  EXPECT_GT(corrected, 0);
}

TEST(Pettitt, FindsWhereAStepIs) {
  std::vector<double> values = noise(100, 3);
  for (size_t i = 63; i < values.size(); ++i) values[i] += 4;
  const ChangePoint change = pettitt(values);
  EXPECT_NEAR(change.index, 63, 1);
  EXPECT_LT(change.p_value, 1e-6);
  int alarms = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) alarms += pettitt(noise(100, seed)).p_value < 0.05;
  EXPECT_LT(alarms, 20);
  EXPECT_GE(pettitt(noise(100, 5), 20).index, 20);
}

TEST(BlockBootstrap, DrawsWholeBlocksThatWrap) {
  Rng rng(1);
  std::vector<int> indices(10);
  draw_circular_blocks(indices, 5, rng);
  for (size_t begin = 0; begin < 10; begin += 5) {
    for (size_t i = 1; i < 5; ++i) EXPECT_EQ(indices[begin + i], (indices[begin] + static_cast<int>(i)) % 10);
  }
}

TEST(BlockBootstrap, LongerBlocksForLongerMemory) {
  EXPECT_LE(block_length(noise(256, 1)), 8);
  EXPECT_GT(block_length(noise(256, 1, 0.9)), 12);
  EXPECT_EQ(block_length(std::vector<double>(4, 1.0)), 1);
}

TEST(BlockBootstrap, IntervalCoversTheMeanOfDependentNoise) {
  int covered = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<double> values = noise(200, 1000 + static_cast<uint64_t>(run), 0.5);
    const Interval interval = bootstrap_interval(values, mean, {.replicates = 199});
    covered += interval.low <= 0 && 0 <= interval.high;
  }
  EXPECT_GT(covered, kRuns * 85 / 100);
  EXPECT_LT(covered, kRuns);  // an interval that always covers says nothing
}

TEST(BlockBootstrap, SameSeedSameInterval) {
  const std::vector<double> values = noise(64, 9);
  EXPECT_EQ(bootstrap_interval(values, median).low, bootstrap_interval(values, median).low);
  EXPECT_NE(bootstrap_interval(values, mean).low, bootstrap_interval(values, mean, {.seed = 2}).low);
}

TEST(Period, FindsTheBeatAmongStrays) {
  std::vector<int64_t> spikes;
  for (int64_t i = 9; i < 1000; i += 10) {
    if (i % 70 != 9) spikes.push_back(i);  // some beats are missed
    if (i % 90 == 9) spikes.push_back(i + 3);
  }
  const auto period = find_period(spikes);
  ASSERT_TRUE(period);
  EXPECT_EQ(period->length, 10);
  EXPECT_GT(period->share, 0.8);
}

TEST(Period, FindsNoneInChance) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    std::vector<int64_t> spikes;
    for (int64_t i = 0; i < 5000; ++i) {
      if (rng.uniform() < 0.02) spikes.push_back(i);
    }
    EXPECT_FALSE(find_period(spikes)) << "seed " << seed;
  }
  EXPECT_FALSE(find_period(std::vector<int64_t>{10, 20, 30}));
}

TEST(StudentQuantile, IsThatOfTheTables) {
  EXPECT_NEAR(student_quantile(0.95, 1), 12.70620474, 1e-7);
  EXPECT_NEAR(student_quantile(0.95, 2), 4.30265273, 1e-7);
  EXPECT_NEAR(student_quantile(0.95, 3), 3.18244631, 1e-7);
  EXPECT_NEAR(student_quantile(0.95, 4), 2.77644511, 1e-7);
  EXPECT_NEAR(student_quantile(0.99, 7), 3.49948330, 1e-7);
  EXPECT_NEAR(student_quantile(0.5, 30), 0.68275569, 1e-7);
  EXPECT_NEAR(student_quantile(0.95, 100'000), 1.95998771, 1e-6);
  EXPECT_ERROR(static_cast<void>(student_quantile(0.95, 0)), ErrorCode::kInvalidArgument, "degrees");
  EXPECT_ERROR(static_cast<void>(student_quantile(1, 4)), ErrorCode::kInvalidArgument, "confidence");
}

}  // namespace
}  // namespace isochron::observe
