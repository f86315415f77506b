// What compare prints and draws on its page about its loops, given handmade results.
#include <gmock/gmock.h>

#include "apps/handmade_scenario.h"
#include "isochron/apps/compare/diagnosis.h"
#include "isochron/apps/compare/page.h"
#include "isochron/apps/compare/text.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ComparePage : public testing::Test {
 protected:
  HandmadeScenario handmade_;
  Scenario& scenario_ = handmade_.scenario;
  ScenarioResult& result_ = handmade_.result;
};

TEST_F(ComparePage, SaysWhatHappensSinceWhenAndWhyWorstFirst) {
  const std::vector<Diagnosis> list = diagnoses_of(result_);
  std::vector<std::string> loops;
  for (const Diagnosis& diagnosis : list) loops.push_back(diagnosis.loop);
  ASSERT_THAT(loops, testing::ElementsAre("slowing", "full", "slow", "pausing", "wrong"));
  EXPECT_EQ(list[0].what, "slows down from 118.0 us to 482.0 us per iteration");
  EXPECT_EQ(list[0].since, "the first iteration") << "a fifth longer in the second tenth already";
  EXPECT_EQ(list[0].also, "takes 30.0x the time of 'cured'");
  EXPECT_EQ(list[0].causes.size(), 2u);
  EXPECT_EQ(list[1].what, "takes more and more memory, +644.00 MB in 4,000 iterations");
  EXPECT_EQ(list[1].since, "iteration 2,000") << "the first sample that has a twentieth of it";
  EXPECT_EQ(list[2].what, "takes 3.00x the time of 'cured'");
  EXPECT_EQ(list[2].since, "the first iteration");
  ASSERT_EQ(list[2].causes.size(), 1u) << "the machine's are no cause to name here";
  EXPECT_EQ(list[3].what, "pauses every 404 iterations (memory taken), 82 % of its time");
  EXPECT_EQ(list[4].what, "trains incorrectly");
  EXPECT_EQ(list[4].causes.at(0).fix, "keep the sums");
}

TEST_F(ComparePage, SpeaksOfTheDocumentsIterations) {
  scenario_.loops[4].work_per_iteration = 10;
  EXPECT_THAT(diagnoses_of(result_)[0].what, HasSubstr("11.8 us to 48.2 us"));
  // Flat in the first half, twice as slow in the second.
  for (auto& [step_class, window] : result_.loops[4].report.windows) {
    const double ns = window.first_iteration < 500 ? 1e5 : 2e5;
    window.total_ns = static_cast<int64_t>(ns) * window.iterations;
    window.quantiles_ns.fill(static_cast<float>(ns));
  }
  EXPECT_EQ(diagnoses_of(result_)[0].since, "iteration 5,000");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-999), "-999");
}

TEST_F(ComparePage, TellsTheChangeWhereTheEndsDontShowIt) {
  LoopResult& slowing = result_.loops[4] = ran("slowing", 1000, 1e5, 1e5);
  slowing.report.time.kind = Flatness::kGrowing;
  slowing.report.time.largest = {"medians relative to the twin", 0.125, 0.09, 0.16};
  const Diagnosis diagnosis = diagnoses_of(result_)[0];
  EXPECT_EQ(diagnosis.what, "slows down by 12.5 %");
  EXPECT_EQ(diagnosis.since, "");
}

TEST_F(ComparePage, CountsInOneSentence) {
  EXPECT_EQ(
      headline({&result_, 1}),
      "Of 7 loops, 1 slows down as it runs, 1 fills memory or disk, 1 is slow from its first iteration on, 1 "
      "pauses periodically, 1 trains incorrectly. 2 of 2 cured loops stay flat.");
  result_.loops[6].report.time.kind = Flatness::kInconclusive;
  EXPECT_THAT(headline({&result_, 1}), HasSubstr(" 1 of 2 cured loops stay flat, 1 inconclusive."));
  add_level(result_.loops[5], "disk_bytes", Flatness::kGrowing, 1e6, 9e8);
  EXPECT_THAT(headline({&result_, 1}),
              HasSubstr(" 0 of 2 cured loops stay flat, 1 growing, 1 inconclusive."));
  const std::vector<ScenarioResult> none;
  EXPECT_THAT(headline(none), HasSubstr("none was found to slow down or grow. "));
}

TEST_F(ComparePage, MeansAloneDontMakeALoopSlow) {
  observe::RunReport& report = result_.loops[0].report;
  report.median_times_slower = 1.05;  // other programs lengthened some iterations
  EXPECT_FALSE(is_slow(report));
  EXPECT_EQ(diagnoses_of(result_).size(), 4u);
  report.spikes = result_.loops[1].report.spikes;
  EXPECT_TRUE(is_slow(report)) << "they are its own pauses";
  report.times_slower = 1.1;
  EXPECT_FALSE(is_slow(report));
}

TEST_F(ComparePage, ACuredLoopIsOnlyToldOfWhereItGrows) {
  result_.loops[5].report.spikes = result_.loops[1].report.spikes;
  result_.loops[6].report.times_slower = 4;
  EXPECT_EQ(diagnoses_of(result_).size(), 5u);
  result_.loops[5].report.time.kind = Flatness::kGrowing;
  EXPECT_EQ(diagnoses_of(result_).size(), 6u);
}

TEST_F(ComparePage, PrintsOneTableAndALineForEachCause) {
  const std::string text = scenario_text(result_, {});
  EXPECT_THAT(text, AllOf(HasSubstr("scenario: \"it slows\""), HasSubstr("mean    median  vs cured"),
                          HasSubstr("cured in tens *"), HasSubstr("slowing: slows down"),
                          HasSubstr("since iteration 2,000\n    no cause found\n"),
                          HasSubstr("since the first iteration\n    also: takes 30.0x"),
                          HasSubstr("cause: ops added; cure: build it once\n"),
                          HasSubstr("cause: another; cure: stop <it>\n")));
  EXPECT_THAT(text, Not(HasSubstr("Time of each epoch")));
  EXPECT_THAT(text, Not(HasSubstr("slope")));
  EXPECT_THAT(scenario_text(result_, {.verbose = true}),
              AllOf(HasSubstr("Time of each epoch"), HasSubstr("slope"), HasSubstr("What there is to see.")));
}

TEST_F(ComparePage, TellsWhatIsInconclusiveFromWhatIsNotAsExpected) {
  EXPECT_THAT(scenario_text(result_, {}), Not(HasSubstr("inconclusive")));
  result_.loops[0].deviations = {{"kind", "the time is inconclusive", true}};
  result_.loops[1].deviations = {{"kind", "the time is inconclusive", true}};
  result_.loops[5].deviations = {{"kind", "the time is growing", false}};
  const std::string text = scenario_text(result_, {});
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("not as expected: cured: the time is growing\n"),
          HasSubstr(
              "short: slow, pausing\n    a longer run: the same command with --seconds 10 --budget 600\n")));
  EXPECT_THAT(scenario_text(result_, {.seconds = 20, .budget_seconds = 1800}),
              HasSubstr("with --seconds 40 --budget 3600\n"));
  EXPECT_THAT(text, Not(HasSubstr("not as expected: slow")));
}

TEST_F(ComparePage, EpochsAreHeldAgainstEachOtherOverAsManyIterations) {
  const observe::Table table = epochs_table(result_);
  EXPECT_EQ(table.title, "Time of each epoch of 32 iterations (* cured)");
  EXPECT_THAT(table.columns, testing::ElementsAre("loop", "1", "2"));
  ASSERT_EQ(table.rows.size(), 7u);
  EXPECT_THAT(table.rows[0], testing::ElementsAre("slow", "1.28 ms", "960.0 us"));
  EXPECT_THAT(table.rows[1], testing::ElementsAre("pausing", "-", "-"));
  EXPECT_THAT(table.rows[6], testing::ElementsAre("cured in tens *", "192.0 us", "160.0 us"));
  EXPECT_THAT(table.says, HasSubstr("Longer epochs"));
  for (LoopResult& loop : result_.loops) loop.epochs_ns.clear();
  EXPECT_TRUE(epochs_table(result_).rows.empty());
}

TEST_F(ComparePage, BeginsWithWhatAReaderIsToKnow) {
  const std::string page = compare_page({&result_, 1}, {});
  const std::string top = page.substr(0, page.find("<h2>"));
  EXPECT_THAT(top,
              AllOf(HasSubstr("Of 7 loops, 1 slows down as it runs"), HasSubstr("no GPU was used"),
                    HasSubstr("data-label=\"since\">the first iteration</td>"),
                    HasSubstr("<div><b>another</b>: stop &lt;it&gt;</div>"), HasSubstr(">none found</td>")));
  EXPECT_LT(top.find("<b>slowing</b>"), top.find("<b>full</b>"));
  const std::string rest = page.substr(top.size());
  EXPECT_LT(rest.find("memory taken since the loop began"), rest.find("<details>")) << "open";
  EXPECT_THAT(rest, AllOf(HasSubstr(">1,500<"), HasSubstr(">iteration<"),
                          HasSubstr("<td>cured in tens (cured)</td>"), HasSubstr("Time of each epoch")));
  EXPECT_EQ(device_text(parse_device("cuda:1")), "Ran on cuda:1.");
}

TEST_F(ComparePage, MarksIteration1500OnlyWhereARunIsThatLong) {
  result_.loops.erase(result_.loops.begin() + 5, result_.loops.end());
  result_.loops.erase(result_.loops.begin(), result_.loops.begin() + 4);
  scenario_.loops.erase(scenario_.loops.begin(),
                        scenario_.loops.begin() + 4);  // only the loop of 1,000 iterations remains
  EXPECT_THAT(scenario_figure(result_), AllOf(HasSubstr("<polyline"), Not(HasSubstr(">1,500<"))));
  result_.loops[0] = ran("slowing", 4000, 1e5, 5e5);
  EXPECT_THAT(scenario_figure(result_), HasSubstr(">1,500<"));
}

}  // namespace
}  // namespace isochron::apps
