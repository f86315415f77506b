#include "isochron/observe/export/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "isochron/observe/export/page.h"
#include "support/sanitizers.h"

namespace isochron::observe {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Steps of `us`, with noise that is similar in neighboring steps.
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

/// `runs` runs on each side. Their step times differ from run to run by `between` (a standard deviation of
/// the logarithm).
RunComparison compare(double first, double second, int runs = 1, double between = 0, uint64_t seed = 1,
                      int count = 20'000) {
  Rng rng(seed + 500'000);
  const auto side = [&](double us, uint64_t from) {
    std::vector<RunReport> reports;
    for (int i = 0; i < runs; ++i)
      reports.push_back(
          make_report(steps(us * std::exp(between * rng.normal()), from + static_cast<uint64_t>(i), count)));
    return reports;
  };
  return compare_runs(side(first, 1000 * seed), side(second, 1000 * seed + 500));
}

/// As `run` would be where the machine's kernel takes `reference_us` and the program follows it alike.
RunData on_a_machine(RunData run, double reference_us) {
  for (ClassData& one : run.classes) {
    for (Window& window : one.windows) window.reference.add(1e3 * reference_us, 1e3 * reference_us);
  }
  return run;
}

TEST(RunComparison, TellsADifferenceAndItsSize) {
  const RunComparison slower = compare(100, 130);
  EXPECT_TRUE(slower.medians.differs());
  EXPECT_NEAR(slower.medians.ratio, 1.3, 0.005);
  EXPECT_THAT(slower.conclusion, HasSubstr("slower"));
  EXPECT_LT(slower.medians.low, slower.medians.ratio);
  EXPECT_GT(slower.medians.high, slower.medians.ratio);
  EXPECT_THAT(compare(100, 80).conclusion, HasSubstr("faster"));
  EXPECT_NEAR(compare(100, 80).means.ratio, 0.8, 0.01);
}

TEST(RunComparison, OneRunOfEachDoesNotTellWhatRunsDifferBy) {
  const RunComparison one = compare(100, 105);
  EXPECT_FALSE(one.medians.differs()) << one.conclusion;
  EXPECT_THAT(one.conclusion, HasSubstr("No difference"));
  const RunComparison several = compare(100, 105, 10, 0.01);
  EXPECT_TRUE(several.medians.differs()) << several.conclusion;
  EXPECT_NEAR(several.medians.ratio, 1.05, 0.015);
  EXPECT_EQ(several.first_runs, 10);
}

TEST(RunComparison, IntervalsHoldTheTruthAsOftenAsTheySay) {
  int told = 0;
  constexpr int kRuns = kSanitizer ? 12 : 60;  // the release build tests the error rate
  for (uint64_t seed = 1; seed <= kRuns; ++seed)
    told += compare(100, 100, 3, kBetweenRuns, seed, 200).medians.differs();
  EXPECT_LE(told, 10) << "5 % of 60 are 3; 11 come by chance once in 5,000";
}

TEST(RunComparison, WhatTheMachineDidIsNoDifferenceOfTheProgram) {
  const auto both = [](double us, double reference_us) {
    const RunReport first = make_report(on_a_machine(steps(100, 1), 0.5)),
                    second = make_report(on_a_machine(steps(us, 2), reference_us));
    return compare_runs({&first, 1}, {&second, 1});
  };
  const RunComparison slower_machine = both(130, 0.65);
  EXPECT_FALSE(slower_machine.medians.differs()) << slower_machine.conclusion;
  EXPECT_NEAR(slower_machine.medians.ratio, 1.3, 0.01);
  EXPECT_LT(slower_machine.medians.high, 1.6) << "a slower machine makes no step shorter";
  EXPECT_NEAR(slower_machine.machine.value(), 1.3, 1e-9);
  EXPECT_THAT(slower_machine.conclusion, HasSubstr("kernel took 1.300 times as long"));
  EXPECT_FALSE(both(77, 0.385).medians.differs()) << both(77, 0.385).conclusion;
  EXPECT_TRUE(both(300, 0.65).medians.differs()) << "more than the machine can have done";
  EXPECT_TRUE(both(130, 0.5).medians.differs());
  EXPECT_THAT(both(130, 0.5).conclusion, Not(HasSubstr("machine")));
}

TEST(RunComparison, AMachineThatVariesAlikeOnBothSidesHidesNothing) {
  Rng rng(1);
  const auto side = [&](double us) {
    std::vector<RunReport> reports;
    for (uint64_t i = 0; i < 8; ++i)
      reports.push_back(make_report(on_a_machine(steps(us, i), 0.5 * std::exp(0.3 * rng.normal()))));
    return reports;
  };
  const RunComparison comparison = compare_runs(side(100), side(110));
  EXPECT_TRUE(comparison.medians.differs()) << comparison.conclusion;
}

TEST(RunComparison, WaitingForACoreIsNoDifferenceOfTheProgram) {
  RunData waiting = steps(150, 2);
  for (Window& window : waiting.classes[0].windows) window.waited_ns = 2 * window.total_ns / 5;
  const RunReport first = make_report(steps(100, 1)), second = make_report(waiting);
  const RunComparison comparison = compare_runs({&first, 1}, {&second, 1});
  EXPECT_FALSE(comparison.medians.differs()) << comparison.conclusion;
  EXPECT_THAT(comparison.conclusion, HasSubstr("the second run waited for a core for 40 % of its time"));
  EXPECT_FALSE(compare_runs({&second, 1}, {&first, 1}).means.differs());
}

TEST(RunComparison, TextAndPageSayWhatDiffers) {
  RunRecord a{.title = "a", .settings = {{"--batch", "32"}, {"--seed", "0"}}, .parts = {}};
  RunRecord b{.title = "b", .settings = {{"--batch", "64"}, {"--seed", "0"}, {"--new", "1"}}, .parts = {}};
  a.parts.push_back({.run = steps(100, 1)});
  b.parts.push_back({.run = steps(150, 2)});
  const RunComparison comparison = compare_records({&a, 1}, {&b, 1});
  ASSERT_EQ(comparison.settings.size(), 2U);
  EXPECT_EQ(comparison.settings[0].name, "--batch");
  EXPECT_EQ(comparison.settings[0].second, "64");
  EXPECT_EQ(comparison.settings[1].first, "-");
  const std::string text = comparison_text(comparison, "A", "B");
  EXPECT_THAT(text, HasSubstr("slower"));
  EXPECT_THAT(text, HasSubstr("+50."));
  const std::string page = record_page(comparison_record(comparison, "A", "B"));
  EXPECT_THAT(page, HasSubstr("Settings that differ"));
  EXPECT_THAT(page, HasSubstr("<svg"));
}

TEST(RunComparison, SpeaksInPlainWords) {
  RunRecord a{.title = "a", .settings = {{"model", "digits"}}, .parts = {}};
  RunRecord b{.title = "b", .settings = {{"model", "mlp"}}, .parts = {}};
  for (RunRecord* record : {&a, &b}) {
    RunData run = steps(100, record == &a ? 1 : 2);
    for (const char* name : {"own_waits", "slow_readings", "heap_allocations"}) {
      NamedSeries series{name, true, {}};
      for (int i = 0; i < 50; ++i) series.values.push_back(i * (record == &a ? 100.0 : 300.0));
      run.series.push_back(std::move(series));
    }
    for (int i = 0; i < 50; ++i) run.sample_iterations.push_back(i * 100);
    run.durations_only = false;
    record->parts.push_back({.run = std::move(run)});
  }
  const std::string text = comparison_text(compare_records({&a, 1}, {&b, 1}), "A", "B");
  EXPECT_THAT(text, testing::StartsWith("The runs have different models, digits and mlp. "));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("waits of the loop's thread"), HasSubstr("heap allocations"),
                                   Not(HasSubstr("_")), Not(HasSubstr("slow"))));
  EXPECT_THAT(comparison_text(compare_records({&a, 1}, {&a, 1}), "A", "B"), Not(HasSubstr("models")));
}

TEST(RunComparison, RefusesWhatCannotBeCompared) {
  const RunRecord none{.title = "none", .parts = {}};
  RunRecord two{.title = "two", .parts = {}};
  two.parts.push_back({.run = steps(100, 1)});
  EXPECT_THROW(compare_records({&none, 1}, {&two, 1}), Error);
  two.parts.push_back({.run = steps(100, 1)});
  EXPECT_THROW(compare_records({&two, 1}, {&two, 1}), Error);
  const RunReport brief = make_report(steps(100, 1, 5)), long_enough = make_report(steps(100, 1));
  EXPECT_THROW(compare_runs({&brief, 1}, {&long_enough, 1}), Error);
  EXPECT_THROW(compare_runs({}, {&long_enough, 1}), Error);
}

}  // namespace
}  // namespace isochron::observe
