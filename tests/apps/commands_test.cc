// bench, analyze, plan and doctor. Counts are checked exactly; times aren't, because they depend on the
// machine.
#include <gmock/gmock.h>
#include <sched.h>

#include <fstream>
#include <optional>
#include <set>

#include "apps/command.h"
#include "isochron/backends/common/vector_target.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/files/file.h"
#include "isochron/observe/host/machine.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Command : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.path() / name) << content;
    return folder_.path() / name;
  }

  TempFolder folder_;
  Outcome outcome_;
};

TEST_F(Command, SuggestsWhatWasMeant) {
  EXPECT_THAT(run_isochron("trian digits"), Ends(2, "no command 'trian'; did you mean 'train'?"));
  EXPECT_THAT(run_isochron("train digits --epoch 2"),
              Ends(2, "no option '--epoch' of 'train'; did you mean '--epochs'?"));
  EXPECT_THAT(run_isochron("train digits --epoch=2"), Ends(2, "did you mean '--epochs'?"));
  EXPECT_THAT(run_isochron("train digits --learning 2"), Ends(2, "did you mean '--learning-rate'?"));
  EXPECT_THAT(run_isochron("--versoin"), Ends(2, "no option '--versoin'; did you mean '--version'?"));
  EXPECT_THAT(run_isochron("train digits mlp"), Ends(2, "unexpected argument 'mlp' of 'train'"));
  EXPECT_THAT(run_isochron("fit").text, testing::Not(HasSubstr("did you mean")));
  EXPECT_EQ(run_isochron("-V").text, run_isochron("--version").text);
}

TEST_F(Command, NumbersInMessagesAreShort) {
  for (const char* line : {"train digits --bucket 0", "analyze - --bound 1e308", "report x --bound 1e308"}) {
    const Outcome outcome = run_isochron(line + std::string(" </dev/null"));
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_LT(outcome.text.size(), 150u) << outcome.text;
  }
}

TEST_F(Command, TrainSynchronizesOnlyNormsThatThereAre) {
  EXPECT_THAT(
      run_isochron("train digits --sync-batch-norm"),
      Ends(2,
           "--sync-batch-norm is for models with batch normalization, which are resnet20 and resnet50, "
           "not digits; leave it out"));
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
                                  HasSubstr("spikes recur every 100 iterations")));
  const nlohmann::json result = read_json(json);
  EXPECT_EQ(result["time"]["kind"], "growing");
  EXPECT_NEAR(result["time"]["change"].get<double>(), 0.25, 0.04);
  EXPECT_TRUE(result["series"].empty()) << "nothing is known of that program's memory";
  std::ifstream written(page);
  const std::string text(std::istreambuf_iterator<char>(written), {});
  EXPECT_THAT(text, AllOf(HasSubstr("Time of an iteration over the run"),
                          HasSubstr("<p>4000 values. Change +2"), Not(HasSubstr("Where the time goes"))));
  EXPECT_EQ(run_isochron("analyze " + file + " --column step_ms --bound 60").status, 0);
  EXPECT_THAT(run_isochron("analyze " + file + " --column step_ms --require-flat"),
              Ends(1, "not found to be flat"));
  EXPECT_THAT(run_isochron("analyze " + file + " --column step_ms --warmup 4000"),
              Ends(2, "at least one must remain"));
  EXPECT_THAT(run_isochron("analyze " + file), Ends(2, "name the one with the times with --column"));
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
              Ends(3, "matches none of 401 lines"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern '(('"), Ends(2, "not a valid regular expression"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern 'ms'"), Ends(2, "no group"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern 'Epoch ([0-9]+)'"), Ends(2, "line 2"));
  EXPECT_THAT(run_isochron("analyze " + file + " --pattern '(loss): '"), Ends(3, "'loss' is not a number"));
  EXPECT_THAT(run_isochron("analyze " + (folder_.path() / "none.csv").string()), Ends(3, "none.csv"));
  EXPECT_THAT(run_isochron("analyze " + write("zero.csv", "1\n0\n").string() + " --unit s"),
              Ends(3, "line 2] expected a time above 0, got 0"));
  std::string table = "epoch;time_ms\n", brief = "time_ns\n";
  for (int i = 0; i < 100; ++i) {
    table += fmt::format("{};{}\n", i, 5 + i % 2);
    brief += "2.5\n";
  }
  EXPECT_THAT(run_isochron("analyze --column time_ms " + write("table.csv", table).string()),
              Ends(0, "100 iterations, median 5."));
  EXPECT_THAT(run_isochron("analyze " + write("brief.csv", brief).string()),
              Ends(2, "give the total time of every 100 iterations instead"));
  EXPECT_THAT(run_isochron("analyze " + file + " --column 1 --pattern '(1)'"), Ends(2, "excludes"));
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
  EXPECT_GT(result["limit_share"], 0);
  EXPECT_GE(result["p99_us"], result["p50_us"]);
  EXPECT_LE(result["arena_bytes"], 1.02 * result["lower_bound_bytes"].get<double>());
  EXPECT_THAT(run_isochron("bench --case huge"), Ends(2, "huge"));
  EXPECT_THAT(run_isochron("bench --ranks"), Ends(2, "mpirun -np 2 --bind-to none isochron bench --ranks"));
  EXPECT_THAT(run_isochron("bench --ranks --memory"), Ends(2, "excludes"));
  EXPECT_THAT(run_isochron("bench tiny --json --profile"), Ends(2, "excludes"));
  EXPECT_THAT(run_isochron("bench --precision f8"),
              Ends(2, "f8 not in {f32,mixed_bf16,mixed_f16,mixed_fp8,tf32}"));
  EXPECT_THAT(run_isochron("bench --case tiny --steps 5 --precision tf32"),
              Ends(2, "tf32 is for CUDA devices"));
}

TEST_F(Command, BenchMeasuresACaseInMixedPrecision) {
  const auto measured = [](const std::string& precision) {
    const Outcome outcome =
        run_isochron("bench --case tiny --steps 100 --threads 1 --json --precision " + precision);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return nlohmann::json::parse(outcome.text);
  };
  const nlohmann::json full = measured("f32");
  for (const std::string precision : {"mixed_bf16", "mixed_f16", "mixed_fp8"}) {
    const nlohmann::json half = measured(precision);
    EXPECT_EQ(half["precision"], precision);
    EXPECT_EQ(half["heap_allocations"], 0);
    EXPECT_LE(half["activation_bytes"], 0.55 * full["activation_bytes"].get<double>());
  }
  EXPECT_THAT(run_isochron("bench --case data --precision mixed_bf16"), Ends(2, "does not train"));
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

TEST_F(Command, DoctorTellsOfMpi) {
  const Outcome outcome = run_isochron("doctor");
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("\nSeveral processes\n"), HasSubstr("mpirun.openmpi"), HasSubstr("srun"),
                    HasSubstr("started by                                 no launcher")));
  const auto with = [](const std::string& setting) {
    return run_isochron("--version >/dev/null; " + setting + " " ISOCHRON_COMMAND " doctor");
  };
  EXPECT_THAT(with("ISOCHRON_MPI=off"), Ends(0, "not checked (ISOCHRON_MPI=off)"));
  EXPECT_THAT(with("ISOCHRON_MPI=lam"), Ends(0, "'lam' is not a known MPI"));
  EXPECT_THAT(with("PATH=/nowhere"), Ends(0, "mpirun.openmpi                             not on PATH"));
  const auto damaged = write("libisochron_openmpi.so", "no library");
  EXPECT_THAT(with("ISOCHRON_MPI_MODULE_PATH=" + damaged.parent_path().string()),
              Ends(0, "Open MPI                                   " + damaged.string() + " can't be loaded"));
}

TEST_F(Command, DoctorTellsWhichRankIsBoundToLessThanItsShare) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(1, sizeof cores, &cores), 0);
  const std::optional<double> quota = observe::describe_machine().core_quota;
  if (CPU_COUNT(&cores) < 2 || (quota && *quota < 2)) GTEST_SKIP() << "there is one core to share";
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  const auto bound = [&](int rank) {
    return run_isochron(fmt::format(
        "--version >/dev/null; OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK={} OMPI_COMM_WORLD_LOCAL_SIZE=1 "
        "OMPI_COMM_WORLD_LOCAL_RANK=0 taskset -c {} {} doctor",
        rank, core, ISOCHRON_COMMAND));
  };
  EXPECT_THAT(bound(0), Ends(0, "  this rank is bound to 1 core, but an equal share would be "));
  EXPECT_THAT(bound(5), Ends(0, "rank 5 of 8: cores 1 of "));
  EXPECT_THAT(bound(5), Ends(0, "start the ranks with mpirun --bind-to none"));
}

TEST_F(Command, DoctorComparesADeviceAlone) {
  EXPECT_THAT(run_isochron("doctor --verify"), Ends(2, "go together"));
  EXPECT_THAT(run_isochron("doctor --device cuda"), Ends(2, "go together"));
  EXPECT_EQ(run_isochron("doctor --device tpu --verify").status, 2);
}

TEST_F(Command, TheVectorInstructionsCanBeLimited) {
  const auto limited = [](const std::string& target, const std::string& command) {
    return run_isochron("--version >/dev/null; ISOCHRON_VECTOR_TARGET=" + target +
                        " ISOCHRON_CACHE=/tmp/nowhere " ISOCHRON_COMMAND " " + command);
  };
  std::set<std::string> files;  // each instruction set has its own choices made by timing
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
  const auto choices = [&] {
    return read_file(std::filesystem::directory_iterator(folder / "kept")->path());
  };
  train("doubtful.json");  // on a busy machine
  const std::string first = train("first.json");
  const auto kept = choices();
  EXPECT_EQ(train("second.json"), first);
  EXPECT_EQ(choices(), kept);
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
              Ends(2, "expected a whole number from 1 to 9223372036854775807"));
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
