#include "isochron/observe/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/core/error.h"
#include "isochron/core/rng.h"
#include "isochron/observe/page.h"

namespace isochron::observe {
namespace {

using testing::HasSubstr;

/// Steps of `us` with noise whose neighbours are alike.
RunData steps(double us, uint64_t seed, int count = 20'000) {
  Rng rng(seed);
  std::vector<double> durations;
  double noise = 0;
  for (int i = 0; i < count; ++i) {
    noise = 0.6 * noise + 0.8 * rng.normal();
    durations.push_back(1e3 * us * std::exp(0.05 * noise));
  }
  return run_data(durations, "steps");
}

RunComparison compare(double first, double second, uint64_t seed = 1) {
  return compare_runs(make_report(steps(first, seed)), make_report(steps(second, seed + 1000)));
}

TEST(RunComparison, TellsADifferenceAndItsSize) {
  const RunComparison slower = compare(100, 103);
  EXPECT_TRUE(slower.medians.differs());
  EXPECT_NEAR(slower.medians.ratio, 1.03, 0.005);
  EXPECT_THAT(slower.conclusion, HasSubstr("slower"));
  EXPECT_LT(slower.medians.low, slower.medians.ratio);
  EXPECT_GT(slower.medians.high, slower.medians.ratio);
  EXPECT_THAT(compare(100, 90).conclusion, HasSubstr("faster"));
  EXPECT_NEAR(compare(100, 90).means.ratio, 0.9, 0.01);
}

TEST(RunComparison, IntervalsHoldTheTruthAsOftenAsTheySay) {
  int told = 0;
  constexpr int kRuns = 200;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    told += compare_runs(make_report(steps(100, seed, 4000)), make_report(steps(100, seed + 7777, 4000)))
                .medians.differs();
  }
  EXPECT_LE(told, 24) << "5 % of 200 are 10; of these, 24 come by chance once in 10,000";
}

TEST(RunComparison, TextAndPageSayWhatDiffers) {
  RunRecord a{.title = "a", .settings = {{"--batch", "32"}, {"--seed", "0"}}, .parts = {}};
  RunRecord b{.title = "b", .settings = {{"--batch", "64"}, {"--seed", "0"}, {"--new", "1"}}, .parts = {}};
  a.parts.push_back({.run = steps(100, 1)});
  b.parts.push_back({.run = steps(150, 2)});
  const RunComparison comparison = compare_records(a, b);
  ASSERT_EQ(comparison.settings.size(), 2U);
  EXPECT_EQ(comparison.settings[0].name, "--batch");
  EXPECT_EQ(comparison.settings[0].second, "64");
  EXPECT_EQ(comparison.settings[1].first, "-");
  const std::string text = comparison_text(comparison, "A", "B");
  EXPECT_THAT(text, HasSubstr("slower"));
  EXPECT_THAT(text, HasSubstr("+50."));
  const std::string page = record_page(
      comparison_record(comparison, make_report(*a.parts[0].run), make_report(*b.parts[0].run), "A", "B"));
  EXPECT_THAT(page, HasSubstr("Settings that differ"));
  EXPECT_THAT(page, HasSubstr("<svg"));
}

TEST(RunComparison, RefusesWhatCannotBeCompared) {
  const RunRecord none{.title = "none", .parts = {}};
  RunRecord two{.title = "two", .parts = {}};
  two.parts.push_back({.run = steps(100, 1)});
  EXPECT_THROW(compare_records(none, two), Error);
  two.parts.push_back({.run = steps(100, 1)});
  EXPECT_THROW(compare_records(two, two), Error);
  EXPECT_THROW(compare_runs(make_report(steps(100, 1, 5)), make_report(steps(100, 1))), Error);
}

}  // namespace
}  // namespace isochron::observe
