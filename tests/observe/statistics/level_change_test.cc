#include "isochron/observe/statistics/level_change.h"

#include <gmock/gmock.h>

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

/// A wave of two periods, which no shape explains and which is too long for a season.
Values two_waves(size_t n, double amplitude) {
  return filled(n,
                [amplitude](double p, Rng&) { return 1 + amplitude * std::sin(4 * std::numbers::pi * p); });
}

LevelChange change_of(const Values& medians, const LevelChangeOptions& options = {}) {
  return level_changes({.medians = medians}, options).at(0);
}

/// The factors of a Student's interval of as many independent points: of two one-sided tests at 95 %, and of
/// one that holds jointly for `statistics`.
double own_quantile(double independent) {
  return student_quantile(0.9, std::max(3, static_cast<int>(independent) - 2));
}
double joint_quantile(double independent, int statistics) {
  return student_quantile(1 - 0.01 / statistics, std::max(3, static_cast<int>(independent) - 2));
}

TEST(LevelChange, SeriesAreGroupedToAboutSixtyFourPoints) {
  EXPECT_EQ(windows_per_point(4), 1u);
  EXPECT_EQ(windows_per_point(95), 1u);
  EXPECT_EQ(windows_per_point(96), 2u);
  EXPECT_EQ(windows_per_point(256), 4u);
  EXPECT_EQ(tenth(4), 1u);
  EXPECT_EQ(tenth(64), 6u);
  const Values pairs = filled(128, [](double p, Rng&) { return p < 0.5 ? 1 : 2; });
  EXPECT_EQ(change_of(pairs).change_point, 32u) << "of 64 points";
}

TEST(LevelChange, OfMediansSingleWindowsDontCount) {
  Values values(64, 1.0);
  values[63] = 1000;
  EXPECT_EQ(change_of(values).changes[kLastTenth], 0) << "one of six is left out on either side";
  values[62] = 7;
  EXPECT_NEAR(change_of(values).changes[kLastTenth], 1.5, 1e-12) << "and no more";
}

TEST(LevelChange, OfMeansEveryWindowCounts) {
  Values values(64, 1.0);
  values[63] = 1.4;
  const std::vector<LevelChange> changes = level_changes({.medians = values, .means = values}, {});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[1].track, Track::kMeans);
  EXPECT_EQ(changes[0].changes[kEnd], 0);
  EXPECT_NEAR(changes[1].changes[kEnd], 0.4 / 6, 1e-9);
  EXPECT_EQ(statistic_name(changes[1].track, kEnd), "end of means");
}

TEST(LevelChange, OfGrowthFromZeroIsAThousandfoldAtMost) {
  Values values(50, 0.0);
  values.resize(100, 12.0);
  EXPECT_DOUBLE_EQ(change_of(values).baseline, 0.012);
  EXPECT_NEAR(change_of(values).changes[kStep], 1000, 1e-9);
}

TEST(LevelChange, TracksAreTheOnesKnownBest) {
  const auto tracks = [](const Duration& duration) {
    Rng rng(3);
    Values medians, trimmed, means;
    for (int w = 0; w < 128; ++w) {
      Values window(40);
      for (double& value : window) value = duration(0, w, rng);
      medians.push_back(median(window));
      trimmed.push_back(trimmed_mean(window, 0.05));
      means.push_back(mean(window));
    }
    const auto changes = level_changes({.medians = medians, .trimmed_means = trimmed, .means = means}, {});
    EXPECT_EQ(changes.at(1).track, Track::kMeans);
    return changes.at(0).track;
  };
  const auto of_two_levels = [](double, int, Rng& rng) { return rng.uniform() < 0.5 ? 1.0 : 1.5; };
  const auto of_many_long_ones = [](double, int, Rng& rng) { return heavy(rng, 0.02, 0.2); };
  EXPECT_EQ(tracks(of_two_levels), Track::kTrimmedMeans);
  EXPECT_EQ(tracks(of_many_long_ones), Track::kMedians);
}

struct ShapeCase {
  const char* what;
  std::function<double(double position)> level;
  std::optional<Statistic> shape;
};

TEST(LevelChange, ShapesAreToldApart) {
  const ShapeCase cases[] = {
      {"constant", [](double) { return 0; }, std::nullopt},
      {"line", [](double p) { return p; }, kTrend},
      {"step", [](double p) { return p < 0.3 ? 0 : 1; }, kStep},
      {"late step", [](double p) { return p < 0.85 ? 0 : 1; }, kStep},
      {"ramp", [](double p) { return std::clamp((p - 0.4) / 0.2, 0.0, 1.0); }, kLastTenth},
      {"ramp to the end", [](double p) { return std::max(0.0, p - 0.6) / 0.4; }, kLastTenth},
      {"ramp from the beginning", [](double p) { return std::min(0.3, p) / 0.3; }, kLastTenth},
      {"ramp from the beginning to 35 %", [](double p) { return std::min(0.35, p) / 0.35; }, kLastTenth},
      {"ramp from 65 % to the end", [](double p) { return std::max(0.0, p - 0.65) / 0.35; }, kLastTenth},
      {"ramp between 35 and 65 %", [](double p) { return std::clamp((p - 0.35) / 0.3, 0.0, 1.0); },
       kLastTenth},
      {"up and back", [](double p) { return p < 0.4 || p > 0.6 ? 0 : 1; }, kLastTenth},
      {"up for a short while", [](double p) { return p < 0.4 || p > 0.46 ? 0 : 1; }, kLastTenth},
      {"up and partly back", [](double p) { return p < 0.3   ? 0
                                                   : p < 0.6 ? 1.5
                                                             : 1; }, kLastTenth},
      {"curve", [](double p) { return p * p * p; }, kLastTenth},
  };
  for (const ShapeCase& one : cases) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const LevelChange change = change_of(filled(
          64, [&](double p, Rng& rng) { return 10 + one.level(p) + 0.03 * rng.normal(); }, seed));
      EXPECT_EQ(change.shape, one.shape) << one.what << ", seed " << seed;
      EXPECT_LT(change.wander, 0.007) << one.what << ", seed " << seed << ": noise is 0.003";
    }
  }
}

TEST(LevelChange, WhatOnlyWandersHasNoShape) {
  int shaped = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Autoregressive wanders(0.9, 0.05);
    shaped += change_of(filled(
                            64, [&](double, Rng& rng) { return wanders(rng); }, seed))
                  .shape.has_value();
  }
  EXPECT_LE(shaped, 48);
}

TEST(LevelChange, RampsAreForTwentyPointsOrMore) {
  const auto shape_of = [](size_t n) {
    return change_of(filled(n,
                            [](double p, Rng& rng) {
                              return 10 + std::clamp((p - 0.4) / 0.2, 0.0, 1.0) + 0.02 * rng.normal();
                            }))
        .shape;
  };
  EXPECT_EQ(shape_of(20), kLastTenth);
  EXPECT_NE(shape_of(19), kLastTenth);
}

TEST(LevelChange, ACountThatNeverFallsBackHasNoNoise) {
  // Rises in jumps that fit no shape, and falls back once by a fraction of the total rise.
  const auto leaps = [](double back) {
    Values values;
    for (int i = 0; i < 64; ++i) {
      double value = 100;
      for (const int leap : {3, 11, 14, 32, 50, 61}) value += i >= leap ? 1 : 0;
      values.push_back(value - (i == 40 ? 6 * back : 0));
    }
    return change_of(values);
  };
  EXPECT_EQ(leaps(0.008).wander, 0);
  EXPECT_EQ(leaps(0.008).shape, kLastTenth);
  EXPECT_GT(leaps(0.013).wander, 0);
}

TEST(LevelChange, ARiseAboveItsNoiseHasAnInterval) {
  const LevelChange change =
      change_of(filled(64, [](double p, Rng& rng) { return 50 * (1 + p) + 0.1 * rng.normal(); }));
  EXPECT_EQ(change.shape, kLastTenth) << "it never falls back";
  EXPECT_GT(change.half_widths[kLastTenth], 0.0005);
  EXPECT_LT(change.half_widths[kLastTenth], 0.005);
}

TEST(LevelChange, AnEvidentStepIsWhereItIsFitted) {
  // So near to an end that Pettitt's test takes it for a later one.
  const auto judged = [](double size, bool corrected) {
    const Values values = filled(
        64, [size](double p, Rng& rng) { return 10 + (p < 0.11 ? 0 : size) + 0.1 * rng.normal(); }, 4);
    const auto tested = static_cast<size_t>(pettitt(values, 6).index);
    const LevelChange change = change_of(values, {.corrected = corrected});
    EXPECT_EQ(change.shape, kStep) << size;
    return change.change_point == tested ? "tested" : change.change_point == 8 ? "fitted" : "elsewhere";
  };
  EXPECT_STREQ(judged(0.8, false), "fitted");
  EXPECT_STREQ(judged(0.3, false), "tested");
  EXPECT_STREQ(judged(0.8, true), "tested") << "what a correction leaves looks like a step";
}

TEST(LevelChange, IntervalsAreStudentsOfTheIndependentPoints) {
  for (const double rho : {0.0, 0.5, 0.8}) {
    Autoregressive noise(rho, 0.03);
    const Values values = filled(64, [&](double, Rng& rng) { return noise(rng); });
    const LevelChange change = change_of(values);
    EXPECT_LT(change.independent, 64);
    for (size_t s = 0; s < kStatistics; ++s) {
      EXPECT_NEAR(change.joint_half_widths[s] / change.half_widths[s],
                  joint_quantile(change.independent, 4) / own_quantile(change.independent), 1e-9);
    }
  }
  const Values noise = filled(64, [](double, Rng& rng) { return gaussian(rng, 0.03); });
  const LevelChange of_two = level_changes({.medians = noise, .means = noise}, {}).at(0);
  EXPECT_NEAR(of_two.joint_half_widths[0] / of_two.half_widths[0],
              joint_quantile(of_two.independent, 8) / own_quantile(of_two.independent), 1e-9)
      << "shared out among both tracks";
}

TEST(LevelChange, IndependentPointsAreThoseOfTheAutocorrelation) {
  EXPECT_NEAR(change_of(two_waves(64, 0.1)).independent, 64 * 0.03 / 1.97, 1e-9) << "at most 0.97";
  EXPECT_NEAR(
      change_of(two_waves(64, 0.1)).joint_half_widths[0] / change_of(two_waves(64, 0.1)).half_widths[0],
      joint_quantile(0, 4) / own_quantile(0), 1e-9)
      << "three degrees at least";
  // Independent points have a negative autocorrelation as often as a positive one, after the correction of
  // its bias.
  int least = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const double independent = change_of(filled(
                                             64, [](double, Rng& rng) { return gaussian(rng, 0.03); }, seed))
                                   .independent;
    EXPECT_LE(independent, 64 * (1 - 2.0 / 64) / (1 + 2.0 / 64) + 1e-9);
    least += independent > 60;
  }
  EXPECT_GT(least, 3);
}

TEST(LevelChange, IntervalsAreAsWideAsTheChangesScatter) {
  for (const double rho : {0.0, 0.7}) {
    for (const Statistic statistic : {kTrend, kLastTenth, kStep, kEnd}) {
      double sum = 0, squares = 0, told = 0;
      constexpr int kSeries = kSanitizer ? 25 : 100;
      for (uint64_t seed = 1; seed <= kSeries; ++seed) {
        Autoregressive noise(rho, 0.02);
        const LevelChange change = change_of(filled(
            64, [&](double p, Rng& rng) { return (statistic == kStep && p > 0.5 ? 1.3 : 1) * noise(rng); },
            seed));
        sum += change.changes[statistic] / kSeries;
        squares += change.changes[statistic] * change.changes[statistic] / kSeries;
        told += change.half_widths[statistic] / own_quantile(change.independent) / kSeries;
      }
      const double scatter = std::sqrt(squares - sum * sum);
      EXPECT_GT(told, 0.65 * scatter) << rho << ", " << statistic;
      EXPECT_LT(told, 1.7 * scatter) << rho << ", " << statistic;
    }
  }
}

TEST(LevelChange, OtherValuesChangeInTheSamePlaces) {
  const Values steps = filled(64, [](double p, Rng& rng) { return (p < 0.5 ? 1 : 2) * gaussian(rng, 0.01); });
  const LevelChange change = change_of(steps);
  EXPECT_EQ(changes_at(change, {.medians = steps}), change.changes);
  const Statistics later =
      changes_at(change, {.medians = filled(64, [](double p, Rng&) { return p < 0.75 ? 1 : 2; })});
  EXPECT_NEAR(later[kStep], 0.5, 0.03);
  EXPECT_NEAR(later[kLastTenth], 1, 1e-12);
}

}  // namespace
}  // namespace isochron::observe
