// `mpirun isochron train`: ranks share the batches, and the result doesn't depend on the number of ranks.
// Also the output of `bench --ranks` and `doctor` under a launcher.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "apps/command.h"
#include "isochron/apps/bench/cases.h"
#include "isochron/nn/weights/safetensors.h"
#include "support/rank_threads.h"
#include "support/sanitizers.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

/// An MPI whose launcher has a name of its own: the tests run with each of them.
struct Mpi {
  const char* launcher;
  const char* arguments;
};

constexpr Mpi kOpenMpi = {"mpirun.openmpi", "--oversubscribe --bind-to none"};
constexpr Mpi kMpich = {"mpirun.mpich", ""};

bool is_installed(const Mpi& mpi) {
  return run_shell(fmt::format("command -v {}", mpi.launcher)).status == 0;
}

class Ranks : public testing::TestWithParam<Mpi> {
 protected:
  void SetUp() override {
    if (!is_installed(GetParam())) GTEST_SKIP() << GetParam().launcher << " is not installed";
  }

  /// The command line that starts `ranks` ranks and ends them after a minute. Memory that MPI never frees
  /// isn't our leak.
  static std::string command_line(int ranks, const std::string& arguments) {
    return fmt::format(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" "
        "timeout -k 5 60 {} {} -np {} {} {}",
        GetParam().launcher, GetParam().arguments, ranks, ISOCHRON_COMMAND, arguments);
  }
  static std::string line(int ranks, const std::string& arguments) {
    return command_line(ranks, "train " + arguments);
  }
  static Outcome train(int ranks, const std::string& arguments) { return run_shell(line(ranks, arguments)); }

  std::string weights(const std::string& folder) const {
    std::ifstream file(folder_.path() / folder / "weights.safetensors", std::ios::binary);
    EXPECT_TRUE(file.good()) << folder;
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::string checkpoint(const std::string& folder) const {
    return " --checkpoint " + (folder_.path() / folder).string();
  }

  TempFolder folder_;
};

/// Covers dropout, a partial last batch, a last update with one batch for four ranks, and numbers of batches
/// that don't divide evenly among the ranks.
constexpr const char* kDigits = "digits --epochs 2 --threads 1 --deterministic --exact-sums";

TEST_P(Ranks, EverySplitOfAnUpdateHasTheSameBits) {
  const auto run = [&](int ranks, const std::string& more, const std::string& folder) {
    const Outcome outcome =
        train(ranks, fmt::format("{} --accumulate {} {}", kDigits, 4 / ranks, more) + checkpoint(folder));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return weights(folder);
  };
  const std::string whole = run(1, "", "one");
  EXPECT_TRUE(run(2, "--bucket 4KiB", "two") == whole);
  EXPECT_TRUE(run(4, "--bucket 1GiB", "four") == whole);
  const std::string counted = "--steps 50 --precision mixed_bf16";  // epochs that don't end with a pass
  EXPECT_TRUE(run(4, counted, "four_counted") == run(1, counted, "one_counted"));
}

/// A few steps of a network of twenty norms, slow enough that rounding doesn't grow.
constexpr const char* kNormed = "resnet20 --epochs 1 --threads 1 --deterministic --learning-rate 1e-4";

/// Writes images: three training batches of 8, and 6 test images.
void write_images(const std::filesystem::path& path) {
  std::ofstream file(path);
  for (int image = 0; image < 30; ++image) {
    for (int pixel = 0; pixel < 64; ++pixel) file << (image * 7 + pixel * (image % 5 + 1)) % 17 << ',';
    file << image % 10 << '\n';
  }
}

TEST_P(Ranks, SynchronizedNormsTrainAsOneProcessOnTheBatchesOfAll) {
  const std::filesystem::path data = folder_.path() / "images.csv";
  write_images(data);
  const auto losses = [&](int ranks, const std::string& more) {
    const std::filesystem::path json = folder_.path() / fmt::format("{}.json", ranks);
    const Outcome outcome =
        train(ranks, fmt::format("{} --data {} {} --json {}", kNormed, data.string(), more, json.string()));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    const nlohmann::json epoch = read_json(json)["epochs"][0];
    return std::pair(epoch["loss"].get<double>(), epoch["val_loss"].get<double>());
  };
  const auto [one, one_validation] = losses(1, "--steps 3 --batch 8 --sync-batch-norm");
  const auto [two, two_validation] = losses(2, "--steps 6 --batch 4 --sync-batch-norm");
  EXPECT_NEAR(two, one, 1e-4 * one);
  EXPECT_NEAR(two_validation, one_validation, 1e-3 * one_validation);
}

TEST_P(Ranks, WithSynchronizedNormsAnEpochIsMadeUpToWholeUpdates) {
  const std::filesystem::path data = folder_.path() / "images.csv";
  write_images(data);
  const std::string more = fmt::format("{} --batch 8 --data {} --enforce-sealed", kNormed, data.string());
  const Outcome outcome = train(2, more + " --sync-batch-norm --precision mixed_bf16");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("1 epoch of 4 steps, batch 8"));
  EXPECT_THAT(train(2, more).text, HasSubstr("1 epoch, batch 8")) << "one pass";
}

TEST_P(Ranks, MovingAveragesAreTheMeanOfAllRanks) {
  const std::filesystem::path data = folder_.path() / "images.csv";
  write_images(data);
  // After one update the first norm's average of means is linear in the mean over a batch.
  const auto mean = [&](int ranks, const std::string& more) {
    const std::string folder = std::to_string(ranks);
    const Outcome outcome =
        train(ranks, fmt::format("{} --data {} {}", kNormed, data.string(), more) + checkpoint(folder));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return nn::SafetensorsFile(folder_.path() / folder / "weights.safetensors")
        .read("stem/norm/moving_mean")
        .to_vector();
  };
  const std::vector<double> whole = mean(1, "--steps 1 --batch 8"), halves = mean(2, "--steps 2 --batch 4");
  ASSERT_EQ(halves.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(halves[i], whole[i], 1e-6) << i;
}

TEST_P(Ranks, OneRankPrintsAndItsResultsAreThoseOfAll) {
  const Outcome one = train(1, "regress --epochs 2 --threads 1 --deterministic --accumulate 2 --exact-sums");
  const Outcome two = train(2, "regress --epochs 2 --threads 1 --deterministic --exact-sums");
  EXPECT_EQ(two.status, 0) << two.text;
  const auto results = [](const std::string& text) {  // of the validation, to the printed digits
    const size_t at = text.find("test:");
    return text.substr(at, text.find("\n\n", at) - at);
  };
  EXPECT_EQ(results(one.text), results(two.text));
  EXPECT_THAT(two.text, HasSubstr("one update per 2 batches"));
  EXPECT_EQ(two.text.find("10 epochs"), two.text.rfind("10 epochs"));
}

TEST_P(Ranks, ExactSumsAreRefusedInEightBits) {
  const Outcome outcome = train(1, "gpt --precision mixed_fp8 --exact-sums --steps 1 --epochs 1");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("[--exact-sums] is for f32, mixed_bf16 and mixed_f16"));
}

TEST_P(Ranks, WhatRanksTrainMustBeTheSame) {
  const auto differing = [&](const std::string& more) {
    return run_shell(line(1, "regress") +
                     fmt::format(" : -np 1 {} train regress {}", ISOCHRON_COMMAND, more));
  };
  for (const auto& [option, text] :
       {std::pair{"--seed 2", "rank 1 has --seed 2, rank 0 has --seed 0"},
        std::pair{"--accumulate 3",
                  "rank 1 has --accumulate times ranks 6, rank 0 has --accumulate times ranks 2"},
        std::pair{"--optimizer rmsprop", "rank 1 has --optimizer rmsprop, rank 0 has --optimizer adam"},
        std::pair{"--precision mixed_bf16", "rank 1 has precision mixed_bf16, rank 0 has precision f32"},
        std::pair{"--batch 16", "rank 1 has --batch 16, rank 0 has --batch 32"}}) {
    const Outcome outcome = differing(option);
    EXPECT_NE(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, AllOf(HasSubstr(text), Not(HasSubstr("Epoch 1, Time"))));
  }
}

TEST_P(Ranks, AnErrorOfOneRankIsItsOwnAndEndsAll) {
  const Outcome outcome = run_shell(line(1, "regress --epochs 100000") +
                                    fmt::format(" : -np 1 {} train regress --threads 0", ISOCHRON_COMMAND));
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.status, 124) << "not ended";
  EXPECT_THAT(outcome.text, HasSubstr("--threads"));
}

TEST_P(Ranks, ASignalToOneRankStopsAllAndAnyNumberGoesOn) {
  const Outcome whole = train(4, std::string(kDigits) + checkpoint("whole"));
  ASSERT_EQ(whole.status, 0) << whole.text;
  for (const int ranks : {4, 1}) {
    const std::string folder = fmt::format("stopped{}", ranks);
    // One rank is told to stop once the first checkpoint exists; the system determines which rank.
    const std::string script = fmt::format(
        "{} & for i in $(seq 1500); do ls {}/cp-* >/dev/null 2>&1 && break; sleep 0.02; done; kill -TERM "
        "$(pgrep -f -- '{}/{} ' | "
        "tail -1); "
        "wait",
        line(4, std::string(kDigits) + checkpoint(folder) + " --checkpoint-every 3"),
        (folder_.path() / folder).string(), folder_.path().string(), folder);
    const Outcome stopped = run_shell(script);
    const Outcome resumed =
        train(ranks, fmt::format("{} --accumulate {} --resume", kDigits, 4 / ranks) + checkpoint(folder));
    EXPECT_EQ(resumed.status, 0) << stopped.text << resumed.text;
    EXPECT_THAT(resumed.text, HasSubstr("resumed from")) << stopped.text;
    EXPECT_TRUE(weights(folder) == weights("whole")) << stopped.text << resumed.text;
  }
}

/// Trains with two ranks and stops the second with all its threads, then runs the shell lines in `then`. In
/// them, $rank is the stopped process and $said the file with the output so far. Prints that output at the
/// end.
Outcome train_with_stopped_rank(const std::string& command, const std::string& folder,
                                const std::string& then) {
  return run_shell(
      fmt::format("said={1}.txt; {0} --checkpoint {1} > $said 2>&1 & run=$!; said={1}.txt\n"
                  "for i in $(seq 1500); do ls {1}/cp-* > /dev/null 2>&1 && break; sleep 0.02; done\n"
                  "rank=$(sed -n 's/^process //p' {1}/ranks/rank-1); kill -STOP $rank\n{2}\n"
                  "wait $run; status=$?; cat $said; exit $status",
                  command, folder, then));
}

constexpr const char* kUntilNamed =
    "for i in $(seq 1500); do grep -q 'isochron: rank 1 ' $said && break; sleep 0.02; done";

TEST_P(Ranks, ARankThatStandsStillIsNamedAndTheRunGoesOnWithIt) {
  const std::string folder = (folder_.path() / "stopped").string();
  const Outcome outcome =
      train_with_stopped_rank(line(2, "digits --epochs 30 --threads 1 --patience 1 --enforce-sealed"), folder,
                              std::string(kUntilNamed) + "; kill -CONT $rank");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("isochron: rank 1 (host "), HasSubstr("; it was last seen "),
                                  HasSubstr("Rank 0 waits"), HasSubstr("; the run continues")));
  EXPECT_FALSE(std::filesystem::exists(folder + "/ranks")) << "removed at a good end";
}

TEST_P(Ranks, ARankThatStandsStillEndsTheRunWhereThatIsAskedFor) {
  const std::string folder = (folder_.path() / "ended").string();
  const Outcome outcome = train_with_stopped_rank(
      line(2, "digits --epochs 1000 --threads 1 --patience 1 --patience-end 2"), folder,
      "wait $run; status=$?; echo \"status $status\" >> $said\n"
      "for i in $(seq 1000); do kill -0 $rank 2> /dev/null || break; sleep 0.02; done\n"
      "kill -0 $rank 2> /dev/null && { echo 'left behind' >> $said; kill -KILL $rank; }");
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("isochron: rank 1 (host "), HasSubstr("The run ends after waiting"),
                    HasSubstr("The last good checkpoint is " + folder + "/cp-"), HasSubstr("status 6\n"),
                    Not(HasSubstr("left behind"))));
}

TEST_P(Ranks, AStartThatARankIsMissingFromEnds) {
  const Outcome outcome = run_shell(line(1, "regress --epochs 1 --threads 1") + " : -np 1 true");
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.status, 124) << "not ended";
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("isochron: rank 0 of 2 has been starting MPI for "),
                                  HasSubstr("rank 1 is not running. The run ends.")));
}

TEST_P(Ranks, AStartThatARankHoldsUpNamesItAndEndsWhereThatIsAskedFor) {
  const Outcome outcome = run_shell(line(1, "regress --epochs 1 --threads 1 --patience 1 --patience-end 2") +
                                    " : -np 1 sh -c 'kill -STOP $$'");
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.status, 124) << "not ended";
  EXPECT_THAT(outcome.text,
              testing::ContainsRegex("isochron: rank 0 of 2 has been starting MPI for 1.[0-9] s, which needs "
                                     "all ranks: rank 1 .process [0-9]+. is stopped"));
  EXPECT_THAT(outcome.text, HasSubstr("is stopped. The run ends."));
}

TEST_P(Ranks, NobodyIsNamedWhileAllGoesWell) {
  const Outcome outcome =
      train(2, "regress --epochs 3 --threads 1 --out " + (folder_.path() / "out").string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, Not(HasSubstr("isochron: rank")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "out" / "ranks"));
}

TEST_P(Ranks, WhatOneProcessAloneCanDoIsRefused) {
  const Outcome outcome = train(2, "regress --beside-twin");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("--beside-twin judges one process"));
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('{')) objects.push_back(nlohmann::json::parse(line));
  }
  return objects;
}

TEST(BenchCases, ExchangeGradientsWithTheGroupTheyAreGiven) {
  for (const BenchCase& entry : bench_cases()) {
    if (!entry.trains) continue;
    run_ranks(2, [&](const std::shared_ptr<comm::Group>& group) {
      const std::unique_ptr<CaseRun> run = entry.make({.group = group});
      run->step();
      EXPECT_GT(group->stats().calls, 0) << entry.name;
    });
  }
}

TEST_P(Ranks, ABenchHasAStepOverThemBesideTheSameStepAlone) {
  const Outcome outcome =
      run_shell(command_line(2, "bench --ranks tiny epoch --threads 1 --steps 10 --json"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const std::vector<nlohmann::json> cases = json_lines(outcome.text);
  ASSERT_EQ(cases.size(), 2u) << outcome.text;
  for (const nlohmann::json& entry : cases) {
    EXPECT_EQ(entry["ranks"], 2);
    EXPECT_EQ(entry["threads"], 1);
    EXPECT_GE(entry["steps"], 10);
    EXPECT_GT(entry["step_us"], 0);
    EXPECT_EQ(entry["alone_us_of_ranks"].size(), 2u);
    EXPECT_DOUBLE_EQ(entry["ratio"], entry["step_us"].get<double>() / entry["alone_us"].get<double>());
  }
  EXPECT_EQ(cases[0]["case"], "tiny");
  EXPECT_EQ(cases[0]["collectives"], 1);
  EXPECT_GT(cases[0]["bytes_sent"], 4 * 1021) << "the gradients of 1,021 weights";
  EXPECT_EQ(cases[1]["case"], "epoch");
  EXPECT_EQ(cases[1]["collectives"], 32) << "one for each step of the epoch";
  EXPECT_EQ(cases[1]["bytes_sent"], 32 * cases[0]["bytes_sent"].get<double>());
}

TEST_P(Ranks, ABenchPrintsOneTable) {
  const Outcome outcome = run_shell(command_line(2, "bench --ranks --case tiny --threads 1 --steps 1"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("2 ranks of 1 thread, "), HasSubstr("over ranks"),
                                  HasSubstr("collectives\ntiny ")));
  EXPECT_EQ(outcome.text.find("\ntiny "), outcome.text.rfind("\ntiny "));
}

TEST_P(Ranks, ABenchOfDifferentThingsIsRefused) {
  for (const char* other :
       {"bench --ranks mlp --steps 1", "bench --ranks tiny --steps 2", "bench --ranks huge"}) {
    const Outcome outcome = run_shell(command_line(1, "bench --ranks tiny --steps 1") +
                                      fmt::format(" : -np 1 {} {}", ISOCHRON_COMMAND, other));
    EXPECT_NE(outcome.status, 0) << other;
    EXPECT_NE(outcome.status, 124) << "not ended";
    EXPECT_THAT(outcome.text,
                AnyOf(HasSubstr("the ranks don't agree on what to measure"), HasSubstr("no case 'huge'")));
  }
}

TEST_P(Ranks, ABenchOfOneRankIsRefused) {
  const Outcome outcome = run_shell(command_line(1, "bench --ranks"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("mpirun -np 2 --bind-to none isochron bench --ranks"));
}

TEST_P(Ranks, TheDoctorTellsOfEach) {
  const Outcome outcome = run_shell(command_line(2, "doctor"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const std::string launcher =
      GetParam().launcher == kOpenMpi.launcher ? "Open MPI's mpirun" : "MPICH's mpirun";
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("started by                                 " + launcher),
                    HasSubstr("rank                                       0 of 2, on this machine 0 of 2"),
                    HasSubstr("cores of this rank"), HasSubstr("rank 1 of 2: cores ")));
  EXPECT_EQ(outcome.text.find("Several processes"), outcome.text.rfind("Several processes"));
}

// Under sanitizers one MPI is enough: only the modules differ, and comm's tests run them with both.
INSTANTIATE_TEST_SUITE_P(Mpi, Ranks,
                         testing::ValuesIn(kSanitizer ? std::vector{kMpich} : std::vector{kOpenMpi, kMpich}),
                         [](const auto& parameter) {
                           return std::string(parameter.param.launcher == kOpenMpi.launcher ? "OpenMpi"
                                                                                            : "Mpich");
                         });

}  // namespace
}  // namespace isochron::apps
