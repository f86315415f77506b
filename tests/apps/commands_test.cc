// compare, bench, plan and doctor. Counts are held to their values; times are not, they are the machine's.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

#include "apps/command.h"
#include "isochron/core/file.h"
#include "isochron/core/rng.h"
#include "isochron/ops/vector_target.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Command : public testing::Test {
 protected:
  /// The loops of one short run of a chapter, by name.
  std::map<std::string, nlohmann::json> compare(const std::string& chapter, int iterations) {
    const std::filesystem::path json = folder_.path() / "compare.json";
    outcome_ = run_isochron("compare " + chapter + " --iterations " + std::to_string(iterations) +
                            " --epochs 3 --json " + json.string());
    EXPECT_EQ(outcome_.status, 0) << outcome_.text;
    const nlohmann::json document = read_json(json);
    EXPECT_EQ(document["chapters"][0]["chapter"], chapter);
    std::map<std::string, nlohmann::json> loops;
    for (const nlohmann::json& loop : document["chapters"][0]["loops"]) loops[loop["name"]] = loop;
    return loops;
  }

  static double per_step(const nlohmann::json& loop, const std::string& name) {
    for (const nlohmann::json& series : loop["series"]) {
      if (series["name"] == name) return series["per_iteration"];
    }
    ADD_FAILURE() << "no series " << name;
    return -1;
  }

  std::filesystem::path write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.path() / name) << content;
    return folder_.path() / name;
  }

  TempFolder folder_;
  Outcome outcome_;
};

TEST_F(Command, CompareCountsWhatEachWayOfAllocatingCosts) {
  auto loops = compare("gpu-memory", 320);
  ASSERT_EQ(loops.size(), 4u);
  EXPECT_GT(per_step(loops["naive"], "system_allocations"), 20);
  EXPECT_EQ(per_step(loops["growth on demand"], "system_allocations"), 0);
  EXPECT_NEAR(per_step(loops["explicit collection"], "system_allocations"), 0.1, 0.02);
  EXPECT_EQ(per_step(loops["planned arena"], "system_allocations"), 0);
  EXPECT_EQ(per_step(loops["planned arena"], "traces"), 0);
  EXPECT_THAT(outcome_.text, AllOf(HasSubstr("Epoch 3, Time: "), HasSubstr("fragmentation")));
}

TEST_F(Command, CompareGrowsTheGraphOnlyWhereOpsAreAdded) {
  auto loops = compare("growing-graph", 300);
  ASSERT_EQ(loops.size(), 6u);
  EXPECT_EQ(per_step(loops["ops added in the loop"], "graph_nodes"), 2);
  EXPECT_EQ(per_step(loops["history kept by a tape"], "tape_entries"), 2);
  EXPECT_EQ(per_step(loops["shapes that change"], "traces"), 1);
  for (const char* cured : {"graph built once", "compiled as a whole", "in-graph while"}) {
    EXPECT_TRUE(loops[cured]["cured"]) << cured;
    EXPECT_EQ(per_step(loops[cured], "graph_nodes"), 0) << cured;
    EXPECT_EQ(per_step(loops[cured], "traces"), 0) << cured;
  }
}

TEST_F(Command, CompareShowsWhatALongRunKeeps) {
  auto loops = compare("long-run", 400);
  ASSERT_EQ(loops.size(), 9u);
  EXPECT_GE(per_step(loops["input cached without a bound"], "live_tensors"), 2);
  EXPECT_GT(per_step(loops["losses kept with their history"], "tape_entries"), 5);
  EXPECT_EQ(per_step(loops["optimizer made again"], "optimizer_states"), 1);
  EXPECT_GT(per_step(loops["data read again from disk"], "disk_read_bytes"), 10'000);
  EXPECT_THAT(loops["accumulation as listed"]["notes"][0], HasSubstr("trains wrongly"));
  for (const char* cured : {"images, Adam", "images, RMSprop", "series, Adam", "series, RMSprop"}) {
    EXPECT_TRUE(loops[cured]["cured"]) << cured;
    EXPECT_EQ(per_step(loops[cured], "traces"), 0) << cured;
    EXPECT_EQ(per_step(loops[cured], "tape_entries"), 0) << cured;
    if (loops[cured].contains("heap_allocations_per_step")) {
      EXPECT_EQ(loops[cured]["heap_allocations_per_step"], 0) << cured;
    }
  }
}

TEST_F(Command, CompareShowsWhatEveryEpochLeaves) {
  auto loops = compare("every-epoch", 20 * 440);
  ASSERT_EQ(loops.size(), 4u);
  EXPECT_GT(per_step(loops["every checkpoint kept"], "disk_bytes"), 100);
  EXPECT_GT(per_step(loops["files left behind"], "disk_bytes"), 30);
  EXPECT_THAT(loops["last few kept"]["notes"][0], HasSubstr("removed now"));
}

TEST_F(Command, CompareFeedsTheStepInFourWays) {
  auto loops = compare("transfers", 64);
  ASSERT_EQ(loops.size(), 4u);
  EXPECT_THAT(loops["made and copied in the loop"]["notes"][0], HasSubstr("66 copies a step"));
  EXPECT_EQ(per_step(loops["tensor slices, prefetched"], "system_allocations"), 0);
  EXPECT_EQ(per_step(loops["decoded once, prefetched"], "traces"), 0);
}

TEST_F(Command, CompareWritesOnePageOfAllChapters) {
  const std::filesystem::path out = folder_.path() / "out";
  ASSERT_EQ(
      run_isochron("compare gpu-memory growing-graph --quiet --iterations 200 --out " + out.string()).status,
      0);
  std::ifstream file(out / "report.html");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(page, AllOf(HasSubstr("<!doctype html>"), HasSubstr("of 10 loops were found"),
                          HasSubstr("<h2>gpu-memory</h2>"), HasSubstr("<h2>growing-graph</h2>"),
                          HasSubstr("<summary><b>in-graph while</b>"), HasSubstr("Where its time goes"),
                          HasSubstr("prefers-color-scheme: dark"), HasSubstr("</html>")));
  EXPECT_THAT(page, Not(AnyOf(HasSubstr("src="), HasSubstr("href="), HasSubstr("url(")))) << "self-contained";
  EXPECT_TRUE(std::filesystem::exists(out / "compare.json"));
  EXPECT_TRUE(std::filesystem::exists(out / "gpu-memory-planned-arena.csv"));
}

TEST_F(Command, AnalyzeJudgesATableOfAnotherProgram) {
  Rng rng(7);
  std::string table = "step,loss,step_ms\n";
  for (int i = 0; i < 4000; ++i) {
    const double ms = (12 + 3.0 * i / 4000) * (1 + 0.02 * rng.normal()) * (i % 100 == 99 ? 5 : 1);
    table += fmt::format("{},{:.3f},{:.4f}\n", i, 1.0, ms);
  }
  const std::string file = write("steps.csv", table).string();
  const std::filesystem::path json = folder_.path() / "steps.json", page = folder_.path() / "steps.html";
  const Outcome outcome = run_isochron("analyze " + file + " --column step_ms --out " + page.string() +
                                       " --json " + json.string());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("4000 iterations, median 13.5"), HasSubstr("growing"),
                                  HasSubstr("spikes return every 100 iterations")));
  const nlohmann::json result = read_json(json);
  EXPECT_EQ(result["time"]["kind"], "growing");
  EXPECT_NEAR(result["time"]["change"].get<double>(), 0.25, 0.04);
  EXPECT_TRUE(result["series"].empty()) << "nothing is known of that program's memory";
  std::ifstream written(page);
  const std::string text(std::istreambuf_iterator<char>(written), {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("Time of an iteration over the run"), Not(HasSubstr("Where its time goes"))));
  EXPECT_EQ(run_isochron("analyze " + file + " --column step_ms --bound 60").status, 0);
  EXPECT_THAT(run_isochron("analyze " + file + " --column step_ms --require-flat"),
              Ends(1, "not found flat"));
  EXPECT_THAT(run_isochron("analyze " + file + " --column step_ms --warmup 4000"),
              Ends(2, "at least one must remain"));
  EXPECT_THAT(run_isochron("analyze " + file), Ends(2, "say which holds the times with --column"));
  EXPECT_THAT(run_isochron("analyze " + file + " --column loss"), Ends(2, "give --unit"));
}

TEST_F(Command, AnalyzeJudgesALog) {
  std::string log = "Starting\n";
  for (int i = 1; i <= 200; ++i) {
    log += fmt::format("Epoch {}/200\n32/32 - {}s {}ms/step - loss: 0.5\n", i, i % 2, 20 + i % 3);
  }
  const std::string file = write("keras.log", log).string();
  const Outcome outcome =
      run_isochron("analyze " + file + " --pattern '([0-9.]+)(ms|us|s)/step' --require-flat");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("200 iterations, median 21.0 ms"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern 'took ([0-9]+)'"),
              Ends(3, "is in none of 401 lines"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern '(('"), Ends(2, "no regular expression"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern 'ms'"), Ends(2, "no group"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern 'Epoch ([0-9]+)'"), Ends(2, "line 2"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern '(loss): '"), Ends(3, "'loss' is no number"));
  EXPECT_THAT(run_isochron("analyze " + (folder_.path() / "none.csv").string()), Ends(3, "none.csv"));
  EXPECT_THAT(run_isochron("analyze " + write("zero.csv", "1\n0\n").string() + " --unit s"),
              Ends(3, "time 2 of 2 is 0"));
}

TEST_F(Command, CompareSaysWhatIsWrongBeforeItRuns) {
  EXPECT_THAT(run_isochron("compare weather"), Ends(2, "no chapter 'weather'; chapters are long-run"));
  EXPECT_THAT(run_isochron("compare growing-graph --device cuda"), Ends(2, "this build computes on the cpu"));
  const std::string nowhere = (folder_.path() / "no" / "r.json").string();
  EXPECT_THAT(run_isochron("compare growing-graph --json " + nowhere), Ends(3, "make it first"));
}

TEST_F(Command, CompareFailsWhereAShortRunDecidesNothing) {
  EXPECT_EQ(run_isochron("compare growing-graph --quiet --iterations 1").status, 0);
  EXPECT_EQ(run_isochron("compare gpu-memory --quiet --iterations 32").status, 0);
  EXPECT_THAT(run_isochron("compare gpu-memory --quiet --iterations 64 --require-expected"),
              Ends(1, "were not found to be what is expected of them"));
}

TEST_F(Command, BenchMeasuresACase) {
  const Outcome outcome = run_isochron("bench --case tiny --steps 500 --threads 1 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const nlohmann::json result = nlohmann::json::parse(outcome.text);
  EXPECT_EQ(result["case"], "tiny");
  EXPECT_EQ(result["steps"], 500);
  EXPECT_EQ(result["threads"], 1);
  EXPECT_EQ(result["heap_allocations"], 0);
  EXPECT_EQ(result["library_allocations"], 0);
  EXPECT_GT(result["p50_us"], 0);
  EXPECT_GE(result["p99_us"], result["p50_us"]);
  EXPECT_LE(result["arena_bytes"], 1.02 * result["lower_bound_bytes"].get<double>());
  EXPECT_THAT(run_isochron("bench --case huge"), Ends(2, "huge"));
  EXPECT_THAT(run_isochron("bench --precision f8"), Ends(2, "f8 not in {f32,mixed_bf16,mixed_f16}"));
}

TEST_F(Command, BenchMeasuresACaseInMixedPrecision) {
  const auto measured = [](const std::string& precision) {
    const Outcome outcome =
        run_isochron("bench --case tiny --steps 100 --threads 1 --json --precision " + precision);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return nlohmann::json::parse(outcome.text);
  };
  const nlohmann::json full = measured("f32");
  for (const std::string precision : {"mixed_bf16", "mixed_f16"}) {
    const nlohmann::json narrow = measured(precision);
    EXPECT_EQ(narrow["precision"], precision);
    EXPECT_EQ(narrow["heap_allocations"], 0);
    EXPECT_LE(narrow["activation_bytes"], 0.55 * full["activation_bytes"].get<double>());
  }
  EXPECT_THAT(run_isochron("bench --case data --precision mixed_bf16"), Ends(2, "trains nothing"));
}

TEST_F(Command, PlanPlacesBuffersOfACsv) {
  const auto path = write("buffers.csv", "id,lower,upper,size\na,0,2,64\nb,1,3,64\nc,2,4,64\n");
  const Outcome outcome = run_isochron("plan " + path.string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("id,lower,upper,size,offset"), HasSubstr("128")));
  EXPECT_THAT(run_isochron("plan " + path.string() + " --capacity 64"), Ends(4, "64"));
  const auto bad = write("bad.csv", "id,lower,upper,size\na,0,2,many\n");
  EXPECT_THAT(run_isochron("plan " + bad.string()), Ends(3, "bad.csv"));
  EXPECT_THAT(run_isochron("plan /nowhere/buffers.csv"), Ends(3, "/nowhere/buffers.csv"));
}

TEST_F(Command, DoctorNamesMachineLibrariesAndCaps) {
  const Outcome outcome = run_isochron("doctor");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("oneDNN"), HasSubstr("vector instructions in use"),
                                  HasSubstr("compute threads"), HasSubstr("switched off (ISOCHRON_CACHE)")));
}

TEST_F(Command, TheVectorInstructionsCanBeLimited) {
  const auto limited = [](const std::string& target, const std::string& command) {
    return run_isochron("--version >/dev/null; ISOCHRON_VECTOR_TARGET=" + target +
                        " ISOCHRON_CACHE=/tmp/nowhere " ISOCHRON_COMMAND " " + command);
  };
  std::set<std::string> files;  // choices made by timing belong to the instructions
  for (const std::string& target : ops::vector_targets()) {
    const Outcome outcome = limited(target, "doctor");
    EXPECT_THAT(outcome, Ends(0, "vector instructions in use                 " + target + ", oneDNN up to "));
    const size_t at = outcome.text.find("choices-");
    ASSERT_NE(at, std::string::npos) << outcome.text;
    files.insert(outcome.text.substr(at, 28));
    EXPECT_THAT(limited(target, "bench --case tiny --steps 1"), Ends(0, "tiny"));
  }
  EXPECT_EQ(files.size(), ops::vector_targets().size());
  for (const char* command : {"doctor", "bench --case tiny --steps 1"}) {
    EXPECT_THAT(limited("mmx", command), Ends(2,
                                              "[ISOCHRON_VECTOR_TARGET] 'mmx' is not supported on this "
                                              "machine: expected one of "));
    EXPECT_THAT(limited("mmx", command).text, HasSubstr(ops::vector_targets().back()));
  }
  EXPECT_THAT(limited("''", "doctor"),
              Ends(0, "vector instructions in use                 " + ops::vector_targets().front()));
}

TEST_F(Command, ChoicesOfKernelsAreKeptForTheNextRun) {
  const auto folder = write("inside", "").parent_path() / "cache";
  const auto with_cache = [&](const std::string& command) {
    return run_isochron("--version >/dev/null; ISOCHRON_CACHE=" + folder.string() + " " ISOCHRON_COMMAND " " +
                        command);
  };
  EXPECT_THAT(with_cache("doctor"), Ends(0, "(0 now)"));
  EXPECT_EQ(with_cache("bench --case mlp --steps 1").status, 0);
  EXPECT_THAT(with_cache("doctor"), Ends(0, folder.string() + "/choices-"));
  EXPECT_THAT(with_cache("doctor").text, Not(HasSubstr("(0 now)")));
  const auto file = std::filesystem::directory_iterator(folder)->path();
  write_file_atomically(file, "damaged");
  EXPECT_THAT(with_cache("bench --case mlp --steps 1"), Ends(0, "warning: choices on disk are ignored"));
}

TEST_F(Command, TwoProcessesWithTheSameChoicesTrainAlike) {
  const auto folder = write("inside", "").parent_path();
  const auto train = [&](const std::string& json) {
    const Outcome outcome = run_isochron(
        "--version >/dev/null; OMP_WAIT_POLICY=passive ISOCHRON_CACHE=" + (folder / "kept").string() +
        " " ISOCHRON_COMMAND " train digits --epochs 1 --seed 5 --json " + (folder / json).string());
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return read_json(folder / json)["test"].dump();
  };
  const std::string first = train("first.json");
  const auto choices = read_file(std::filesystem::directory_iterator(folder / "kept")->path());
  EXPECT_EQ(train("second.json"), first);
  EXPECT_EQ(read_file(std::filesystem::directory_iterator(folder / "kept")->path()), choices);
}

TEST_F(Command, AFullDiskBehindTheOutputIsAnError) {
  EXPECT_EQ(run_isochron("doctor >/dev/full").status, 3) << "also where nobody can be told";
  EXPECT_THAT(run_isochron("doctor 2>&1 >/dev/full || exit $?; true"), Ends(3, "standard output"));
  const auto path = write("buffers.csv", "id,lower,upper,size\na,0,2,64\n");
  EXPECT_THAT(run_isochron("plan " + path.string() + " 2>&1 >/dev/full || exit $?; true"),
              Ends(3, "standard output"));
}

TEST_F(Command, PlanReadsAPipe) {
  const auto path = write("buffers.csv", "id,lower,upper,size\na,0,2,64\n");
  EXPECT_THAT(run_isochron("plan /dev/stdin < " + path.string()), Ends(0, "a,0,2,64,0"));
}

TEST_F(Command, NumbersThatDontFitAreRefused) {
  EXPECT_THAT(run_isochron("bench --case tiny --seconds nan"),
              Ends(2, "expected a finite number above 0, got 'nan'"));
  EXPECT_THAT(run_isochron("compare --seconds 1e999"), Ends(2, "expected a finite number above 0"));
  EXPECT_THAT(run_isochron("train regress --seed -1"), Ends(2, "expected a whole number >= 0, got '-1'"));
  EXPECT_THAT(run_isochron("train regress --batch 99999999999999999999"),
              Ends(2, "expected a whole number >= 1"));
  EXPECT_THAT(run_isochron("plan x.csv --capacity -1"), Ends(2, "expected a whole number >= 1, got '-1'"));
}

TEST_F(Command, ATrainingThatDivergesFails) {
  EXPECT_THAT(run_isochron("train regress --epochs 1 --batch 1000 --learning-rate 1e30"),
              Ends(1, "try a smaller learning rate"));
}

TEST_F(Command, MistakesExitWithTwo) {
  EXPECT_THAT(run_isochron(""), Ends(2, "doctor"));
  EXPECT_THAT(run_isochron("fly"), Ends(2, "fly"));
  EXPECT_THAT(run_isochron("--version"), Ends(0, "0.1.0"));
}

}  // namespace
}  // namespace isochron::apps
