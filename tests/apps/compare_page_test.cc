// What compare prints and draws on its page about its loops, given handmade results.
#include <gmock/gmock.h>

#include "isochron/apps/compare/diagnosis.h"
#include "isochron/apps/compare/page.h"
#include "isochron/apps/compare/text.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A loop of `iterations` iterations. Each window has a hundredth of them; its times go from `first_ns` to
/// `last_ns`.
LoopResult ran(const std::string& name, int64_t iterations, double first_ns, double last_ns) {
  LoopResult result;
  observe::RunReport& report = result.report;
  report.name = name;
  report.iterations = iterations;
  report.time.kind = last_ns > 1.1 * first_ns ? Flatness::kGrowing : Flatness::kFlat;
  report.duration_ns.mean = (first_ns + last_ns) / 2;
  report.duration_ns.p50 = report.duration_ns.mean;
  constexpr int64_t kWindows = 100;
  for (int64_t w = 0; w < kWindows; ++w) {
    const double ns = first_ns + (last_ns - first_ns) * static_cast<double>(w) / (kWindows - 1);
    observe::Window window;
    window.first_iteration = w * iterations / kWindows;
    window.last_iteration = (w + 1) * iterations / kWindows - 1;
    window.iterations = iterations / kWindows;
    window.total_ns = static_cast<int64_t>(ns * static_cast<double>(window.iterations));
    window.quantiles_ns.fill(static_cast<float>(ns));
    report.windows.push_back({0, window});
  }
  return result;
}

void add_level(LoopResult& result, const std::string& name, Flatness kind, double from, double to) {
  observe::SeriesReport series;
  series.name = name;
  series.first = from;
  series.last = to;
  series.values = {from, (from + to) / 2, to};
  observe::FlatnessVerdict verdict;
  verdict.kind = kind;
  verdict.first_tenth = from;
  verdict.last_tenth = to;
  verdict.windows = 100;
  series.verdict = std::move(verdict);
  result.report.series.push_back(std::move(series));
  result.report.sample_iterations = {0, result.report.iterations / 2, result.report.iterations};
}

/// Loops: one slows down, one uses more and more memory, one pauses, one is slow, one trains incorrectly, and
/// two are cured. The second cured loop does ten iterations in one.
class ComparePage : public testing::Test {
 protected:
  ComparePage() {
    scenario_.name = "scenario";
    scenario_.complaint = "it slows";
    scenario_.summary = "What there is to see.";
    for (const char* name : {"slow", "pausing", "wrong", "full", "slowing"})
      scenario_.loops.push_back({.name = name, .what = ""});
    scenario_.loops[2].fault = KnownFault{"trains incorrectly", "lost sums", "keep the sums"};
    scenario_.loops.push_back({.name = "cured", .what = "", .cured = true, .iterations_per_epoch = 100});
    scenario_.loops.push_back({.name = "cured in tens",
                               .what = "",
                               .cured = true,
                               .iterations_per_epoch = 100,
                               .work_per_iteration = 10});
    scenario_.loops[0].iterations_per_epoch = 100;

    add("slow", 3000, 3e4, 3e4).report.causes = {{"one by one", "capture it", ""},
                                                 {"stolen CPU time", "", ""}};
    observe::SpikeReport& spikes = add("pausing", 3000, 1e4, 1e4).report.spikes;
    spikes.period = observe::Period{404, 1, 1};
    spikes.label = "memory taken";
    spikes.time_share = 0.82;
    add("wrong", 3000, 1e4, 1e4);
    add_level(add("full", 4000, 1e4, 1e4), "rss_bytes", Flatness::kGrowing, 1e6, 6.45e8);
    add("slowing", 1000, 1e5, 5e5).report.causes = {{"ops added", "build it once", ""},
                                                    {"another", "stop <it>", ""}};
    add_level(add("cured", 3000, 1e4, 1e4), "rss_bytes", Flatness::kFlat, 1e6, 1e6);
    add("cured in tens", 3000, 5e4, 5e4);
    const double slower[] = {3, 1, 1, 1, 30, 1, 0.5};
    for (size_t i = 0; i < result_.loops.size(); ++i)
      result_.loops[i].report.times_slower = result_.loops[i].report.median_times_slower = slower[i];
    result_.loops[0].epochs_ns = {4e6, 3e6};
    result_.loops[6].epochs_ns = {6e6, 5e6};
  }
  LoopResult& add(const std::string& name, int64_t iterations, double first_ns, double last_ns) {
    result_.loops.push_back(ran(name, iterations, first_ns, last_ns));
    return result_.loops.back();
  }

  Scenario scenario_;
  ScenarioResult result_{&scenario_, {}, {}};
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
