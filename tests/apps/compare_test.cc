// compare: its loops and tables as the command runs them, the time budget, and how findings are classified.
// Counts are checked exactly; times aren't, because they depend on the machine.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <regex>

#include "apps/command.h"
#include "isochron/apps/compare/page.h"
#include "isochron/apps/compare/run.h"
#include "isochron/apps/compare/tally.h"
#include "isochron/core/base/error.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Compare : public testing::Test {
 protected:
  /// The loops of one short run of a scenario, by name.
  std::map<std::string, nlohmann::json> compare(const std::string& scenario, int iterations) {
    outcome_ = run_isochron(fmt::format("compare {} --verbose --iterations {} --epochs 3 --out {}", scenario,
                                        iterations, folder_.path().string()));
    EXPECT_EQ(outcome_.status, 0) << outcome_.text;
    const nlohmann::json document = read_json(folder_ / "compare.json");
    EXPECT_EQ(document["scenarios"][0]["scenario"], scenario);
    tables_ = document["scenarios"][0]["tables"];
    std::map<std::string, nlohmann::json> loops;
    for (const nlohmann::json& loop : document["scenarios"][0]["loops"]) loops[loop["name"]] = loop;
    return loops;
  }

  static double per_step(const nlohmann::json& loop, const std::string& name) {
    for (const nlohmann::json& series : loop["series"]) {
      if (series["name"] == name) return series["per_iteration"];
    }
    ADD_FAILURE() << "no series " << name;
    return -1;
  }

  /// The cells of the row `name`, by column, in the scenario's table whose title begins with `title`.
  std::map<std::string, std::string> row(const std::string& title, const std::string& name) {
    for (const nlohmann::json& table : tables_) {
      if (!table["title"].get<std::string>().starts_with(title)) continue;
      EXPECT_FALSE(table["says"].get<std::string>().empty()) << title;
      for (const nlohmann::json& cells : table["rows"]) {
        if (cells[0] != name) continue;
        std::map<std::string, std::string> found;
        for (size_t c = 0; c < cells.size(); ++c) found[table["columns"][c]] = cells[c];
        return found;
      }
    }
    ADD_FAILURE() << "no row '" << name << "' in a table '" << title << "...'";
    return {};
  }
  int64_t number(const std::string& title, const std::string& name, const std::string& column) {
    return std::atoll(row(title, name)[column].c_str());
  }

  TempFolder folder_;
  Outcome outcome_;
  nlohmann::json tables_;
};

TEST_F(Compare, CountsWhatEachWayOfAllocatingCosts) {
  auto loops = compare("gpu-memory", 320);
  ASSERT_EQ(loops.size(), 4u);
  EXPECT_GE(per_step(loops["naive"], "system_allocations"), 3);
  EXPECT_EQ(per_step(loops["growth on demand"], "system_allocations"), 0);
  EXPECT_NEAR(per_step(loops["explicit collection"], "system_allocations"), 0.1, 0.02);
  EXPECT_EQ(per_step(loops["planned arena"], "system_allocations"), 0);
  EXPECT_EQ(per_step(loops["planned arena"], "traces"), 0);
  EXPECT_THAT(outcome_.text, AllOf(HasSubstr("Epoch 3, Time: "), HasSubstr("fragmentation")));
  EXPECT_THAT(row("Fragmentation", "this training, planned")["fragmentation"], "0.0 %");
  EXPECT_THAT(row("Setting a pool", "before its first use")["result"], "accepted");
  EXPECT_THAT(row("Setting a pool", "after its first use")["result"], HasSubstr("set memory growth before"));
  EXPECT_EQ(row("Batches of 1 to 256 rows", "none")["steps out of memory"], "0.0 %");
  EXPECT_EQ(number("Batches of 1 to 256 rows", "none", "retries after freeing memory"), 0);
  EXPECT_EQ(number("Memory alive", "nothing", "live tensors"), 0);
  EXPECT_EQ(number("Memory alive", "the loss as a number", "live tensors"), 0);
  EXPECT_EQ(number("Memory alive", "the loss as a tensor", "live tensors"), 100);
  EXPECT_GT(number("Memory alive", "the loss, under one tape for all steps", "live tensors"), 1000);
}

TEST_F(Compare, GrowsTheGraphOnlyWhereOpsAreAdded) {
  auto loops = compare("growing-graph", kSanitizer ? 100 : 300);
  ASSERT_EQ(loops.size(), 6u);
  EXPECT_EQ(per_step(loops["ops added in the loop"], "graph_nodes"), 2);
  EXPECT_EQ(per_step(loops["history kept by a tape"], "tape_entries"), 2);
  EXPECT_EQ(per_step(loops["shapes that change"], "traces"), 1);
  for (const char* cured : {"graph built once", "compiled as a whole", "in-graph while"}) {
    EXPECT_TRUE(loops[cured]["cured"]) << cured;
    EXPECT_EQ(per_step(loops[cured], "graph_nodes"), 0) << cured;
    EXPECT_EQ(per_step(loops[cured], "traces"), 0) << cured;
  }

  const auto nodes = [&](const std::string& passes) {
    return number("Graph passes", passes, "nodes planned");
  };
  EXPECT_LT(nodes("all on"), nodes("all off"));
  for (const char* pass : {"fold_constants", "simplify", "cse", "fuse"}) {
    EXPECT_GT(nodes(fmt::format("without {}", pass)), nodes("all on"))
        << "the step leaves it nothing to do: " << pass;
  }
  EXPECT_EQ(nodes("all off"), number("Graph passes", "all off", "nodes traced"));
  const auto unrolled = [&](int steps) {
    return number("Loops", fmt::format("recurrent network, {} steps, unrolled", steps), "nodes");
  };
  EXPECT_GT(unrolled(256), 10 * unrolled(16));
  EXPECT_EQ(number("Loops", "recurrent network, 256 steps, a scan", "nodes"),
            number("Loops", "recurrent network, 16 steps, a scan", "nodes"));
  EXPECT_FALSE(row("Time of the gradient", "2000").empty());
}

TEST_F(Compare, ShowsWhatALongRunKeeps) {
  auto loops = compare("long-run", kSanitizer ? 200 : 400);
  ASSERT_EQ(loops.size(), 9u);
  EXPECT_GE(per_step(loops["input cached without a bound"], "live_tensors"), 2);
  EXPECT_GT(per_step(loops["losses kept with their history"], "tape_entries"), 5);
  EXPECT_EQ(per_step(loops["optimizer made again"], "optimizer_states"), 1);
  EXPECT_GT(per_step(loops["data read again from disk"], "disk_read_bytes"), 10'000);
  EXPECT_THAT(loops["accumulation as listed"]["notes"][0], HasSubstr("trains incorrectly"));
  for (const char* cured : {"images, Adam", "images, RMSprop", "series, Adam", "series, RMSprop"}) {
    EXPECT_TRUE(loops[cured]["cured"]) << cured;
    EXPECT_EQ(per_step(loops[cured], "traces"), 0) << cured;
    EXPECT_EQ(per_step(loops[cured], "tape_entries"), 0) << cured;
    if (loops[cured].contains("heap_allocations_per_step")) {
      EXPECT_EQ(loops[cured]["heap_allocations_per_step"], 0) << cured;
    }
  }
  EXPECT_EQ(row("What an optimizer keeps", "SGD")["optimizer state"], "0 B");
  EXPECT_EQ(row("What an optimizer keeps", "RMSprop")["optimizer state"], "11.88 KB");
  EXPECT_EQ(row("What an optimizer keeps", "Adam")["optimizer state"], "23.76 KB");
  EXPECT_EQ(row("64 images per update", "8")["batches per update"], "8");
  EXPECT_LT(std::atof(row("64 images per update", "4")["arena vs first row"].c_str()), 0.5);
  EXPECT_NE(row("Precision", "mixed_bf16")["activations"], row("Precision", "f32")["activations"]);
}

TEST_F(Compare, ShowsWhatEveryEpochLeaves) {
  auto loops =
      compare("every-epoch", (kSanitizer ? 3 : 5) * 440);  // --epochs 3: none of the first three is saved
  ASSERT_EQ(loops.size(), 6u);
  EXPECT_GT(per_step(loops["every checkpoint kept"], "disk_bytes"), 100);
  EXPECT_GT(per_step(loops["files left behind"], "disk_bytes"), 30);
  EXPECT_THAT(loops["last few kept"]["notes"][0], HasSubstr("now removed"));
  EXPECT_THAT(outcome_.text, Not(HasSubstr("saved\n")));

  const auto sent = [&](const char* name) {
    std::smatch match;
    const std::string note = loops[name]["notes"][0];
    const std::regex pattern("sent (.*) in the first pass and (.*) in the last");
    EXPECT_TRUE(std::regex_search(note, match, pattern)) << note;
    return std::pair<std::string, std::string>(match[1], match[2]);
  };
  const auto [first, last] = sent("what is new exchanged");
  EXPECT_EQ(first, last);
  const auto [first_of_all, last_of_all] = sent("all results exchanged");
  EXPECT_NE(first_of_all, last_of_all);

  EXPECT_EQ(number("Checkpoint policies", "every epoch, all state, the loop waits", "files left"), 10);
  const int64_t kept =
      number("Checkpoint policies", "every epoch, the last 3 kept, in the background", "files left");
  EXPECT_THAT(kept, AllOf(testing::Ge(1), testing::Le(3)))
      << "a save that the next one overtakes leaves no file";
  EXPECT_EQ(number("Temporary files", "after the run", "files"), 0);
  EXPECT_EQ(number("Temporary files", "after another run was killed (SIGKILL)", "files"), 3);
  EXPECT_EQ(number("Temporary files", "after the next run has started", "files"), 0);
  EXPECT_EQ(number("Log levels", "error: errors only", "lines"), 0);
  EXPECT_THAT(number("Log levels", "info: each checkpoint", "lines"), AllOf(testing::Ge(1), testing::Le(5)))
      << "a save that the next one overtakes has no line";
  EXPECT_EQ(number("Log levels", "a line printed by the program in every step", "lines"), 5 * 220);
  EXPECT_EQ(row("Time and loss", "1")["loss decrease"], "-");
  EXPECT_GT(std::atof(row("Time and loss", "2")["loss decrease"].c_str()),
            std::atof(row("Time and loss", "10")["loss decrease"].c_str()));
  EXPECT_EQ(row("Computing the accuracy so far", "4400")["size of the sums"], "16 B");
  EXPECT_FALSE(row("Weight gradient of a dense layer", "1e-40").empty());
}

TEST_F(Compare, PrintsALineForEachFileThatIsSaved) {
  if (kSanitizer) GTEST_SKIP() << "five epochs of all loops and tables for one line take minutes here";
  const Outcome outcome = run_isochron(fmt::format("compare every-epoch --verbose --iterations {} --out {}",
                                                   5 * 440, folder_.path().string()));
  EXPECT_THAT(outcome, Ends(0, "    cp-0005.safetensors saved\n"));
}

TEST_F(Compare, FeedsTheStepInFiveWays) {
  auto loops = compare("transfers", 64);
  ASSERT_EQ(loops.size(), 5u);
  EXPECT_THAT(loops["made and copied in the loop"]["notes"][0], HasSubstr("66 copies per step"));
  EXPECT_EQ(per_step(loops["tensor slices, prefetched"], "system_allocations"), 0);
  EXPECT_EQ(per_step(loops["decoded once, prefetched"], "traces"), 0);
  EXPECT_THAT(
      row("NaN and infinity", "a NaN in row 170 of the data")["what fit reports"],
      HasSubstr(
          "the batch's 'x' f32(32, 100): 1 of 3200 elements are NaN or infinite, the first at (10, 7)"));
  EXPECT_THAT(row("NaN and infinity", "the logarithm of negative numbers as the loss")["what fit reports"],
              HasSubstr("first in [log]"));
}

TEST_F(Compare, WritesOnePageOfAllScenarios) {
  const std::filesystem::path out = folder_.path() / "out";
  const Outcome outcome =
      run_isochron("compare gpu-memory growing-graph --iterations 200 --out " + out.string());
  ASSERT_THAT(outcome, Ends(0, "The report is in " + out.string() +
                                   "/report.html; figures, JSON and CSV files are in the same folder.\n"));
  const std::string page = content(out / "report.html");
  EXPECT_THAT(page,
              AllOf(HasSubstr("<!doctype html>"), HasSubstr("Of 10 loops, "),
                    HasSubstr("Ran on the CPU; no GPU was used."), HasSubstr("<h2>gpu-memory</h2>"),
                    HasSubstr("<h2>growing-graph</h2>"), HasSubstr("<summary><b>in-graph while</b>"),
                    HasSubstr("Where the time goes"), HasSubstr("<h3>Graph passes switched off one by one"),
                    HasSubstr("prefers-color-scheme: dark"), HasSubstr("</html>")));
  EXPECT_LT(page.find("<h2>growing-graph</h2>"), page.find("<h2>gpu-memory</h2>"));
  EXPECT_LT(page.find("Ran on the CPU"), page.find("<h2>"));
  EXPECT_THAT(page, Not(AnyOf(HasSubstr("src="), HasSubstr("href="), HasSubstr("url(")))) << "self-contained";
  EXPECT_TRUE(std::filesystem::exists(out / "gpu-memory-planned-arena.csv"));
  const std::string epochs = content(out / "gpu-memory-epochs.csv");
  EXPECT_THAT(epochs, AllOf(testing::StartsWith("scenario,loop,epoch,iterations,ns\n"),
                            HasSubstr("gpu-memory,\"planned arena\",6,32,")))
      << "200 iterations are 6 epochs";
  EXPECT_EQ(read_json(out / "compare.json")["scenarios"][1]["loops"][3]["epochs_ns"].size(), 6u);
  const std::string figure = content(out / "gpu-memory.svg");
  EXPECT_THAT(figure, AllOf(testing::StartsWith("<svg xmlns="), HasSubstr("planned arena"),
                            HasSubstr("prefers-color-scheme: dark")));
}

TEST_F(Compare, WritesIntoAFolderOfItsOwnWithoutBeingTold) {
  const Outcome outcome = run_isochron("compare gpu-memory --iterations 100", /*in=*/folder_.path());
  EXPECT_THAT(outcome, Ends(0, "The report is in isochron-compare/report.html;"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "isochron-compare" / "report.html"));
}

TEST_F(Compare, CountsWhatLoopsAreFoundToBeOverManyRuns) {
  const Outcome outcome =
      run_isochron("compare gpu-memory --iterations 64 --repeat 2 --out " + folder_.path().string());
  ASSERT_THAT(outcome, Ends(0, "  2 runs\n"));
  const nlohmann::json tally = read_json(folder_ / "tally.json");
  EXPECT_EQ(tally["runs"], 2);
  ASSERT_EQ(tally["loops"].size(), 4u);
  const nlohmann::json& naive = tally["loops"][0];
  EXPECT_EQ(naive["loop"], "naive");
  EXPECT_EQ(naive["as_expected"], 0) << "64 iterations decide nothing";
  EXPECT_EQ(naive["inconclusive"].get<int>() + naive["otherwise"].get<int>(), 2);
  for (const char* run : {"run-1", "run-2"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / run / "report.html")) << run;
  }
}

TEST_F(Compare, EndsWhenItsBudgetIsSpent) {
  // Hardly more than the loops need: each runs for its time, and none continues.
  const Outcome outcome =
      run_isochron("compare gpu-memory --verbose --seconds 0.2 --budget 3 --out " + folder_.path().string());
  EXPECT_THAT(outcome, Ends(0, "not settled"));
}

TEST_F(Compare, HoldsLoopsThatRunOnBesideTheirTwins) {
  // Long enough for a verdict; the sanitizers' times decide nothing.
  const std::string length = kSanitizer ? "--seconds 0.2 --budget 20" : "--seconds 3 --budget 200";
  const Outcome outcome =
      run_isochron("compare growing-graph " + length + " --out " + folder_.path().string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const nlohmann::json result = read_json(folder_.path() / "compare.json");
  int decided_beside_twin = 0;
  for (const auto& loop : result.at("scenarios").at(0).at("loops")) {
    const auto reason = loop.at("time").at("reason").get<std::string>();
    const bool beside_twin = reason.find("pairs of turns") != std::string::npos;
    EXPECT_EQ(beside_twin, reason.find("usual means relative to the twin") != std::string::npos) << reason;
    decided_beside_twin +=
        beside_twin || loop.at("time").at("kind") == "flat";  // alone, where a run is quiet
  }
  EXPECT_GE(decided_beside_twin, kSanitizer ? 0 : 4) << "the two others end by themselves";
}

TEST_F(Compare, SaysWhatIsWrongBeforeItRuns) {
  EXPECT_THAT(run_isochron("compare weather"), Ends(2, "no scenario 'weather'; scenarios are growing-graph"));
  EXPECT_THAT(
      run_isochron("compare growing-graph --device cuda"),
      Ends(2, "growing-graph runs on the CPU only; the scenarios for cuda:0 are gpu-memory and transfers"));
  const std::string nowhere = (folder_.path() / "no" / "r.json").string();
  EXPECT_THAT(run_isochron("compare growing-graph --json " + nowhere, folder_.path()),
              Ends(3, "create it first"));
  EXPECT_THAT(run_isochron("compare --repeat 0"), Ends(2, "expected a whole number from 1 to 1000, got '0'"));
  EXPECT_THAT(run_isochron("compare --budget -1"), Ends(2, "expected a finite number above 0, got '-1'"));
}

TEST_F(Compare, FailsWhereAShortRunDecidesNothing) {
  const std::string out = " --out " + folder_.path().string();
  EXPECT_EQ(run_isochron("compare growing-graph --iterations 1" + out).status, 0);
  EXPECT_EQ(run_isochron("compare gpu-memory --iterations 32" + out).status, 0);
  EXPECT_THAT(run_isochron("compare gpu-memory --budget 1" + out), Ends(2, "loops need at least"));
  EXPECT_THAT(run_isochron("compare gpu-memory --budget 3 --seconds 2" + out),
              Ends(2, "leave --seconds out"));
  EXPECT_THAT(run_isochron("compare gpu-memory --iterations 64 --require-expected" + out),
              Ends(1, "did not give the expected result"));
}

/// A loop found to be `kind`, with the cured form `slower` times as fast.
LoopResult found(Flatness kind, double slower = 1) {
  LoopResult result;
  result.report.name = "loop";
  result.report.time.kind = kind;
  result.report.times_slower = result.report.median_times_slower = slower;
  return result;
}

TEST(CompareFinding, TellsInconclusiveFromOtherwise) {
  const Loop cured{.name = "loop", .what = "", .cured = true};
  const auto finding = [](const Loop& loop, LoopResult result) {
    result.deviations = deviations_of(loop, result);
    return result.finding();
  };
  EXPECT_EQ(finding(cured, found(Flatness::kFlat)), Finding::kAsExpected);
  EXPECT_EQ(finding(cured, found(Flatness::kInconclusive)), Finding::kInconclusive);
  EXPECT_EQ(finding(cured, found(Flatness::kGrowing)), Finding::kOtherwise);
  const Loop growing{.name = "loop",
                     .what = "",
                     .expected = {.time = {Flatness::kGrowing}, .cause = "ops added in the loop"}};
  EXPECT_EQ(finding(growing, found(Flatness::kFlat)), Finding::kOtherwise);
  EXPECT_EQ(finding(growing, found(Flatness::kInconclusive)), Finding::kInconclusive);
  LoopResult wrong_cause = found(Flatness::kGrowing);
  wrong_cause.report.causes = {{"unexplained", "", ""}};
  EXPECT_EQ(finding(growing, wrong_cause), Finding::kOtherwise);
  // Effects of the machine are named, but don't count as faults of the loop.
  LoopResult disturbed = found(Flatness::kFlat);
  disturbed.report.causes = {{"stolen CPU time", "", ""}, {"the machine slowed, not the program", "", ""}};
  EXPECT_EQ(finding(cured, disturbed), Finding::kAsExpected);
  disturbed.report.causes.push_back({"unexplained", "", ""});
  EXPECT_EQ(finding(cured, disturbed), Finding::kOtherwise);
  const Loop slow{.name = "loop", .what = "", .expected = {.slow = true}};
  EXPECT_EQ(finding(slow, found(Flatness::kFlat, 3)), Finding::kAsExpected);
  EXPECT_EQ(finding(slow, found(Flatness::kFlat, 1.05)), Finding::kOtherwise);
}

observe::SeriesReport level(std::string name, Flatness kind) {
  observe::SeriesReport series;
  series.name = std::move(name);
  observe::FlatnessVerdict verdict;
  verdict.kind = kind;
  series.verdict = std::move(verdict);
  return series;
}

TEST(CompareFinding, ExpectsMemoryAndDiskOfEveryLoop) {
  const auto deviations = [](const Loop& loop, Flatness memory, Flatness disk) {
    LoopResult result = found(Flatness::kFlat);
    result.report.series = {level("rss_bytes", memory), level("disk_bytes", disk)};
    std::vector<std::string> kinds;
    for (const Deviation& deviation : deviations_of(loop, result)) kinds.push_back(deviation.kind);
    return kinds;
  };
  using testing::ElementsAre;
  using testing::IsEmpty;
  const Loop flat{.name = "loop", .what = ""};
  EXPECT_THAT(deviations(flat, Flatness::kFlat, Flatness::kFlat), IsEmpty());
  EXPECT_THAT(deviations(flat, Flatness::kShrinking, Flatness::kFlat), IsEmpty()) << "given back";
  EXPECT_THAT(deviations(flat, Flatness::kGrowing, Flatness::kFlat), ElementsAre("memory growing"));
  EXPECT_THAT(deviations(flat, Flatness::kFlat, Flatness::kGrowing), ElementsAre("disk use growing"));
  const Loop fills{.name = "loop",
                   .what = "",
                   .expected = {.memory = {Flatness::kFlat, Flatness::kGrowing}, .grows = "disk_bytes"}};
  EXPECT_THAT(deviations(fills, Flatness::kGrowing, Flatness::kGrowing), IsEmpty());
  EXPECT_THAT(deviations(fills, Flatness::kFlat, Flatness::kFlat), ElementsAre("disk use flat"));
}

TEST(CompareFinding, FewerIterationsThanAnEpochHasAreTooFew) {
  const Loop loop{
      .name = "loop", .what = "", .iterations_per_epoch = 32, .expected = {.no_allocations = true}};
  LoopResult result = found(Flatness::kGrowing);
  result.report.iterations = 3;
  result.report.heap_allocations_per_step = 12;
  const std::vector<Deviation> deviations = deviations_of(loop, result);
  ASSERT_EQ(deviations.size(), 1u);
  EXPECT_EQ(deviations[0].text, "too short to judge: 3 iterations, but an epoch has 32");
  EXPECT_TRUE(deviations[0].inconclusive);
  result.report.iterations = 32;
  EXPECT_EQ(deviations_of(loop, result).size(), 2u);
}

TEST(CompareRun, LoopsShareTheBudget) {
  const Scenario scenario{
      .name = "scenario",
      .complaint = "",
      .loops = {{.name = "a", .what = ""}, {.name = "b", .what = "", .max_iterations = 9}},
      .summary = "",
      .tables = {[](double) { return observe::Table{}; }}};
  CompareOptions enough{.budget_seconds = 100}, few{.budget_seconds = 5}, none{.budget_seconds = 0.5};
  fit_budget({&scenario, 1}, enough);
  EXPECT_EQ(enough.seconds, CompareOptions{}.seconds);
  fit_budget({&scenario, 1}, few);
  EXPECT_LT(few.seconds, 2) << "each of two loops has a twin";
  EXPECT_GT(few.seconds, 0.5);
  EXPECT_ERROR(fit_budget({&scenario, 1}, none), ErrorCode::kInvalidArgument, "2 loops need at least");
}

TEST(CompareRun, ShowsWhatAFailedLoopPrinted) {
  const auto fails = [](LoopContext&) {
    fmt::print(stderr, "a hint\n");
    fail(ErrorCode::kInvalidArgument, "loop", "it cannot go on");
  };
  const Scenario scenario{.name = "scenario",
                          .complaint = "",
                          .loops = {{.name = "loop", .what = "", .cured = true, .run = fails}},
                          .summary = ""};
  testing::internal::CaptureStderr();
  EXPECT_THROW(run_scenarios({&scenario, 1}, {.iterations = 1}, [](const ScenarioResult&) {}), Error);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a hint\n"));
}

TEST(CompareTally, SumsAndSharesOfRuns) {
  const Scenario scenario{.name = "gpu-memory",
                          .complaint = "",
                          .loops = {{.name = "loop", .what = "", .cured = true}},
                          .summary = ""};
  Tally tally;
  for (const Flatness kind :
       {Flatness::kFlat, Flatness::kFlat, Flatness::kInconclusive, Flatness::kGrowing}) {
    ScenarioResult result{&scenario, {found(kind)}, {}};
    result.loops[0].deviations = deviations_of(scenario.loops[0], result.loops[0]);
    tally.add({&result, 1});
  }
  EXPECT_EQ(tally.not_as_expected(), 2);
  EXPECT_EQ(tally.latest_text(), "1 loop: 0 as expected, 0 inconclusive, 1 not as expected");
  EXPECT_THAT(tally.text(),
              AllOf(HasSubstr("4 runs"), HasSubstr("gpu-memory: loop"),
                    HasSubstr("time inconclusive (1x), time growing (1x)"),
                    HasSubstr("50.0 % as expected, 25.0 % inconclusive, 25.0 % not as expected")));
  EXPECT_EQ(tally.json()["loops"][0]["deviations"]["time growing"], 1);
}

}  // namespace
}  // namespace isochron::apps
