#include "isochron/observe/statistics/recurring.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "isochron/core/base/rng.h"
#include "isochron/observe/statistics/statistics.h"
#include "support/expect_error.h"

namespace isochron::observe {
namespace {

using Values = std::vector<double>;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAreArray;

Values each_of(size_t n, const std::function<double(size_t i)>& value) {
  Values values(n);
  for (size_t i = 0; i < n; ++i) values[i] = value(i);
  return values;
}

/// The means, whose typical value is 1, with long iterations spread.
Values spread(const Values& means) { return with_long_iterations_spread(Values(means.size(), 1), means); }

TEST(LongIterations, OfEqualSizeAndDistanceMakeALevel) {
  const auto each_tenth = [](size_t i) { return i % 10 == 9 ? 6.0 : 1.0; };
  EXPECT_THAT(spread(each_of(100, each_tenth)), Each(DoubleNear(1.5, 1e-12)));
  const auto from_the_middle = [](size_t i) { return i % 10 == 5 ? 6.0 : 1.0; };
  const Values shifted = spread(each_of(100, from_the_middle));
  for (size_t i = 6; i < 96; ++i) EXPECT_NEAR(shifted[i], 1.5, 1e-12) << i;
}

TEST(LongIterations, CountInFullAndWhereTheyAre) {
  const Values means =
      each_of(200, [](size_t i) { return i % 10 == 9 ? 1 + 0.1 * static_cast<double>(i) : 1; });
  const Values result = spread(means);
  EXPECT_NEAR(mean(result), mean(means), 0.08 * (mean(means) - 1)) << "but for what is cut off the largest";
  for (size_t i = 80; i < 200; ++i) EXPECT_GE(result[i], result[i - 1]) << i << ": none is too small there";
  EXPECT_NEAR(result[95], 1 + 0.01 * 99, 1e-12);
}

TEST(LongIterations, AreNotWhatOnlyAFewWindowsHave) {
  const auto stalls = [](size_t count) {
    return each_of(100, [count](size_t i) { return i % 10 == 4 && i / 10 < count ? 500.0 : 1.0; });
  };
  EXPECT_THAT(spread(stalls(kStalls)), Each(1.0));
  EXPECT_GT(spread(stalls(kStalls + 1))[20], 10) << "no stalls any more";
  EXPECT_EQ(kStalls, 5u) << "flatness.md says so";
  Values grown = each_of(100, [](size_t i) { return i % 10 == 9 ? 6.0 : 1.0; });
  grown[49] = 1e6;
  EXPECT_THAT(spread(grown), Each(DoubleNear(1.5, 1e-12)));
}

TEST(LongIterations, OfAWindowThatStalledForMostOfItAreNotItsLevel) {
  const auto stalled = [](double typical, size_t windows) {
    Values usual(100, 1.0);
    for (size_t i = 50; i < 50 + windows; ++i) usual[i] = typical;
    return with_long_iterations_spread(usual, usual);
  };
  EXPECT_THAT(stalled(1.6, 2), Each(1.0));
  EXPECT_EQ(stalled(1.6, 3)[51], 1.6) << "longer than that, it is a level";
  EXPECT_EQ(stalled(1.4, 1)[50], 1.4);
}

TEST(LongIterations, AreAThirdOfTheLargestOnes) {
  // Twenty windows have a long iteration of size 1; twenty windows between them have one of another size.
  const auto with_smaller = [](double size) {
    return spread(each_of(200, [size](size_t i) { return i % 10 == 9 ? 2 : i % 10 == 4 ? 1 + size : 1; }));
  };
  const Values left = with_smaller(0.25);
  EXPECT_NEAR(left[54] - left[53], 0.25, 1e-12) << "noise";
  EXPECT_NEAR(left[57], 1.1, 1e-12);
  const Values moved = with_smaller(0.35);
  EXPECT_NEAR(moved[54], 1.07, 1e-12);
  EXPECT_NEAR(moved[57], 1.2, 1e-12);
}

TEST(LongIterations, AreBeyondWhatATenthOfTheWindowsLacks) {
  const auto lacking = [](size_t share) {
    return each_of(100, [share](size_t i) { return i % (100 / share) == 3 ? 1.0 : 2.0; });
  };
  EXPECT_THAT(spread(lacking(5)), ElementsAreArray(lacking(5))) << "what is in nearly all is usual";
  const Values fifth = spread(lacking(20));
  EXPECT_NEAR(fifth[4], 1.5, 1e-12) << "for two windows";
}

TEST(LongIterations, WithoutAnyNothingChanges) {
  EXPECT_THAT(spread(Values(50, 1.0)), Each(1.0));
  EXPECT_THAT(spread({1, 2}), ElementsAreArray({1, 2}));
  EXPECT_TRUE(with_long_iterations_spread({}, {}).empty());
  EXPECT_ERROR(with_long_iterations_spread(Values(3, 1), Values(4, 1)), ErrorCode::kShapeMismatch,
               "3 typical values but 4 means");
}

/// A wave of `periods` periods in `n` values around 10; it explains the given part of the variance.
Values wave(size_t n, double periods, double explained, uint64_t seed = 1) {
  Rng rng(seed);
  const double noise = std::sqrt(0.5 * (1 / explained - 1));
  return each_of(n, [&](size_t i) {
    return 10 +
           std::sin(2 * std::numbers::pi * periods * (static_cast<double>(i) + 0.3) /
                    static_cast<double>(n)) +
           noise * rng.normal();
  });
}

TEST(Season, IsFoundAndTakenOut) {
  for (const double periods : {6.0, 13.7, 25.3}) {
    const Values values = wave(256, periods, 0.999);
    const std::optional<Season> season = find_season(values);
    ASSERT_TRUE(season) << periods;
    EXPECT_NEAR(256 / season->windows, periods, 0.3);
    EXPECT_GT(season->explained, 0.9) << periods;
    EXPECT_NEAR(mean(without(*season, values)), mean(values), 0.02);
    double left = 0;
    for (const double value : without(*season, values)) left += (value - 10) * (value - 10) / 256;
    EXPECT_LT(left, 0.05) << periods << ": of a variance of a half";
  }
}

TEST(Season, IsTheBestOfThePeriodsNearIt) {
  for (const double periods : {9.0, 10.1, 12.0, 15.2, 20.0, 25.3}) {
    const std::optional<Season> season = find_season(wave(512, periods, 0.9999));
    ASSERT_TRUE(season) << periods;
    EXPECT_GT(season->explained, 0.94) << periods;
  }
}

TEST(Season, LeavesTheTrend) {
  Values values = wave(256, 20, 0.99);
  for (size_t i = 0; i < values.size(); ++i) values[i] += 0.05 * static_cast<double>(i);
  const std::optional<Season> season = find_season(values);
  ASSERT_TRUE(season);
  EXPECT_NEAR(season->windows, 12.8, 0.2);
  EXPECT_NEAR(theil_sen(without(*season, values)).slope, 0.05, 5e-4);
}

/// How many of 20 series have a season of that many periods.
int found(double periods, double explained) {
  int count = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::optional<Season> season = find_season(wave(256, periods, explained, seed));
    count += season && std::fabs(256 / season->windows - periods) < 0.6;
  }
  return count;
}

TEST(Season, ExplainsThreeFifthsOfTheVariance) {
  EXPECT_GE(found(20, 0.72), 18);
  EXPECT_LE(found(20, 0.48), 2);
}

TEST(Season, OfLessThanEightPeriodsExplainsMore) {
  EXPECT_GE(found(6, 0.95), 18);
  EXPECT_LE(found(6, 0.72), 2);
  EXPECT_LE(found(7.4, 0.72), 2);
  EXPECT_GE(found(8.7, 0.76), 18);
}

TEST(Season, HasFourPeriodsAtLeast) {
  EXPECT_GE(found(4.4, 0.99), 18);
  EXPECT_EQ(found(3.3, 0.99), 0);
  EXPECT_FALSE(find_season(Values{1, 2, 1, 2, 1, 2, 1})) << "too short for four of two windows";
  EXPECT_TRUE(find_season(Values{1, 2, 1, 2, 1, 2, 1, 2}));
}

TEST(Season, HasAPartAWindowUpToALimit) {
  const auto parts = [](size_t n, double periods) {
    return find_season(wave(n, periods, 0.999))->profile.size();
  };
  EXPECT_EQ(parts(200, 20), 10u);
  EXPECT_EQ(parts(1200, 12), 32u);
  EXPECT_EQ(parts(600, 6), 8u) << "few periods make it coarse";
}

TEST(Season, IsThePeriodAndNoMultipleOfIt) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    const Values values = each_of(256, [&](size_t i) { return (i % 7 == 3 ? 3 : 1) + 0.2 * rng.normal(); });
    const std::optional<Season> season = find_season(values);
    ASSERT_TRUE(season) << seed;
    EXPECT_NEAR(season->windows, 7, 0.05) << seed;
  }
}

TEST(Season, NoiseTrendsAndConstantsHaveNone) {
  int of_noise = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    of_noise += find_season(each_of(64, [&](size_t) { return 10 + rng.normal(); })).has_value();
  }
  EXPECT_LE(of_noise, 1);
  EXPECT_FALSE(find_season(each_of(100, [](size_t i) { return static_cast<double>(i); })));
  EXPECT_FALSE(find_season(Values(100, 3.0)));
  EXPECT_FALSE(find_season({}));
}

}  // namespace
}  // namespace isochron::observe
