// Callbacks of a program that every rank runs (tests/train/support/fit_ranks.cc): which callbacks are called
// on which rank.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/process/shell.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

struct Mpi {
  const char* name;
  const char* arguments;
};

class RanksFit : public testing::TestWithParam<Mpi> {
 protected:
  void SetUp() override {
    if ((std::string(",") + ISOCHRON_MPI_FOUND + ",").find(fmt::format(",{},", GetParam().name)) ==
            std::string::npos ||
        run_shell(fmt::format("command -v mpirun.{}", GetParam().name)).status != 0)
      GTEST_SKIP() << GetParam().name << " is not installed";
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "MPI's own threads are not made for the thread sanitizer";
#endif
  }

  /// Three ranks, ended after a minute. Memory that MPI never frees isn't our leak.
  Outcome run(int epochs, const char* wrong = "") const {
    return run(fmt::format("'{}' {} {}", folder_.path().string(), epochs, wrong));
  }
  Outcome run(const std::string& arguments) const {
    return run_shell(
        fmt::format("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                    "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" "
                    "timeout -k 5 60 mpirun.{} {} -np 3 {} {} < /dev/null",
                    GetParam().name, GetParam().arguments, ISOCHRON_FIT_RANKS, arguments));
  }
  std::vector<std::string> lines(const char* file) const {
    std::ifstream stream(folder_.path() / file);
    std::vector<std::string> result;
    for (std::string line; std::getline(stream, line);) result.push_back(line);
    return result;
  }

  const TempFolder folder_;
};

TEST_P(RanksFit, TheFirstAlonePrintsAndWritesAndAllGoOn) {
  const Outcome begun = run(1);
  EXPECT_EQ(begun.status, 0) << begun.text;
  const Outcome resumed = run(3);
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_THAT(resumed.text,
              AllOf(HasSubstr("resumed from"), HasSubstr("Epoch 3/3"), Not(HasSubstr("Epoch 1/3"))));
  for (const char* once : {"resumed from", "Epoch 2/3", "Epoch 3/3"})
    EXPECT_EQ(resumed.text.find(once), resumed.text.rfind(once)) << resumed.text;
  const auto called = ElementsAre("epoch 1", "end after 1", "epoch 2", "epoch 3", "end after 3");
  for (const char* file : {"first-0", "all-0", "all-1", "all-2"}) EXPECT_THAT(lines(file), called) << file;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "first-1"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "first-2"));
  EXPECT_THAT(lines("rows.csv"), SizeIs(1 + 3));
  const std::filesystem::directory_iterator board(folder_.path() / "board" / "train");
  EXPECT_EQ(std::distance(board, {}), 2) << "a file for each run";
}

TEST_P(RanksFit, MeetAtTheLastCommonStepAlsoWithinACallOfSeveral) {
  const Outcome outcome = run(2, "calls");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Epoch 2/2"));
}

TEST_P(RanksFit, WhatTheFirstAloneMustNotDoIsRefused) {
  EXPECT_THAT(
      run(3, "stops").text,
      HasSubstr(
          "callback 'wrong' ends the training of 3 ranks (seen enough), but only the first rank calls it"));
  EXPECT_THAT(lines("all-0"), testing::Contains("epoch 1"));
  const Outcome saves = run(3, "saves");
  EXPECT_NE(saves.status, 0);
  EXPECT_THAT(saves.text, HasSubstr("callback 'wrong' saves, but only the first rank calls it"));
}

TEST_P(RanksFit, WhatMustBeTheSameOnAllIsComparedBeforeTheFirstStep) {
  EXPECT_THAT(run(1, "rows").text, HasSubstr("rank 1 has 4 batches of data, 4 per epoch, 0 of validation "
                                             "data, rank 0 has 6 batches of data, 6 per epoch"));
  EXPECT_THAT(run(1, "order").text, HasSubstr("rank 1 has data of fingerprint "));
  EXPECT_THAT(run(1, "recorder").text, HasSubstr("rank 1 has no recorder, rank 0 has a recorder"));
  EXPECT_THAT(run(1, "alone").text,
              HasSubstr("rank 1 has callbacks of all ranks: all, rank 0 has callbacks of all "
                        "ranks: all, model_checkpoint"));
  EXPECT_THAT(run(1, "schedule").text, HasSubstr("rank 1 has learning rate 0.09"));
  const std::string often = run(1, "often").text;
  EXPECT_THAT(often,
              HasSubstr("rank 1 has callback model_checkpoint: cp-{epoch:04d}, every 1 epochs, 7 steps,"));
  EXPECT_THAT(often,
              HasSubstr(", rank 0 has callback model_checkpoint: cp-{epoch:04d}, every 1 epochs, 0 steps,"));
}

TEST_P(RanksFit, WhatACallbackOfOneRankEndsEndsOnAll) {
  for (const char* how : {"ends", "ends-late", "ends-early"}) {
    const std::filesystem::path own = folder_.path() / how;  // or each would resume the one before
    std::filesystem::create_directory(own);
    const Outcome outcome = run(fmt::format("'{}' 4 {}", own.string(), how));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("stopped: a callback of rank 1 has ended the training")) << how;
  }
}

TEST_P(RanksFit, ASignalAfterTheLastUpdateIsNotLost) {
  EXPECT_NE(run(2, "signal").status, 0) << "it comes too late to end the training of all";
}

TEST_P(RanksFit, WeightsThatDifferEndTheEpoch) {
  EXPECT_THAT(run(3, "rates").text,
              HasSubstr("after epoch 1, 'kernel' of rank 1 differs from that of rank 0"));
}

TEST_P(RanksFit, EndTogetherWhereTheLossOfOneIsNotFinite) {
  for (const char* how : {"nan", "late-nan"}) {
    const Outcome outcome = run(2, how);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    for (const char* file : {"stopped-0", "stopped-1", "stopped-2"})
      EXPECT_THAT(lines(file), ElementsAre("the loss of step 2 of epoch 1 is NaN or infinite")) << how;
  }
}

TEST_P(RanksFit, AgreeOnWhichOfTheBestIsDue) {
  const Outcome outcome = run(4, "best");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(lines("all-2"), testing::Contains("epoch 4"));
}

TEST_P(RanksFit, ASecondFitFindsWhatTheFirstLeft) {
  const Outcome outcome = run(2, "twice");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (const char* file : {"all-0", "all-1", "all-2"})
    EXPECT_THAT(lines(file),
                ElementsAre("epoch 1", "epoch 2", "end after 2", "epoch 1", "epoch 2", "end after 2"));
}

TEST_P(RanksFit, TheOneThatKeepsMpiFromEndingIsNamedAndTheRunEnds) {
  const Outcome outcome = run("stand-still");
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.status, 124) << "not ended";
  EXPECT_THAT(outcome.text,
              testing::ContainsRegex("isochron: rank [02] of 3 has been ending MPI for [0-9.]+ s, which "
                                     "needs all ranks: rank 1 .process [0-9]+. is stopped"));
}

INSTANTIATE_TEST_SUITE_P(Mpi, RanksFit,
                         testing::Values(Mpi{"openmpi", "--oversubscribe --bind-to none"}, Mpi{"mpich", ""}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace isochron::train
