// The modules under the launchers of their MPI; each rank is a process (tests/comm/support/mpi_ranks.cc).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "comm/support/no_launcher.h"
#include "isochron/core/base/error.h"
#include "support/process/shell.h"
#include "support/temp_folder.h"

namespace isochron::comm {
namespace {

using testing::HasSubstr;

Outcome run_line(const std::string& line) { return run_shell(line + " </dev/null"); }

bool failed(const Outcome& outcome) {
  constexpr int kTimedOut = 124;  // of the command timeout
  return outcome.status > 0 && outcome.status != kTimedOut;
}

/// Open MPI's launcher exits with the status of the rank that aborted, but may lose the message. MPICH's
/// prints the message, but may exit with the status of a rank that the launcher itself has ended.
MATCHER_P(AbortedWith, status, "") {
  *result_listener << "status " << arg.status << ", printed:\n" << arg.text;
  const std::string message = fmt::format(", {}) - process ", status);
  return arg.status == status ||
         (failed(arg) && arg.text.find("application called MPI_Abort") != std::string::npos &&
          arg.text.find(message) != std::string::npos);
}

/// Whether the process runs and isn't a zombie.
bool is_running(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t state = text.rfind(')') + 2;
  return state < text.size() && text[state] != 'Z' && text[state] != 'X';
}

TEST(WithoutALauncher, NothingOfMpiIsMapped) {
  const Outcome outcome = run_line(std::string("env -i ") + ISOCHRON_MPI_RANKS + " alone");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("maps MPI: no"));
}

std::string spelled(std::string_view mpi) { return mpi == "openmpi" ? "Open MPI" : "MPICH"; }

class MpiModule : public NoLauncher, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << "the build has found no " << spelled(GetParam());
    if (run_line("command -v " + mpirun()).status != 0) GTEST_SKIP() << mpirun() << " is not installed";
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "MPI's own threads are not made for the thread sanitizer";
#endif
    set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    const char* const options = std::getenv("ASAN_OPTIONS");  // what MPI keeps to its end is no leak of ours
    set("ASAN_OPTIONS", ((options != nullptr ? std::string(options) + ":" : "") + "detect_leaks=0").c_str());
  }
  static bool is_built(const std::string& name) {
    return (std::string(",") + ISOCHRON_MPI_FOUND + ",").find("," + name + ",") != std::string::npos;
  }
  static std::string mpirun() { return std::string("mpirun.") + GetParam(); }

  Outcome run_ranks(int ranks, const std::string& mode) const {
    const bool open_mpi = std::string_view(GetParam()) == "openmpi";
    return run_line(fmt::format("timeout -k 5 60 {} {} -np {} '{}' {} '{}'", mpirun(),
                                open_mpi ? "--oversubscribe --bind-to none" : "", ranks, ISOCHRON_MPI_RANKS,
                                mode, folder_.path().string()));
  }
  /// How many processes have initialized MPI, over all ranks.
  int began() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }
  /// How many still run after the launcher has ended; it may end a moment before they do.
  int left() const {
    const auto patience_ends = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (;;) {
      int running = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
        running += is_running(entry.path().filename().string());
      }
      if (running == 0 || std::chrono::steady_clock::now() > patience_ends) return running;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  const TempFolder folder_;
};

TEST_P(MpiModule, DoesAllCollectives) {
  for (const int ranks : {2, 3, 4}) {
    const Outcome outcome = run_ranks(ranks, "collectives");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, testing::ContainsRegex(fmt::format("{} [0-9]+[.][0-9.]+: {} ranks, as expected",
                                                                 spelled(GetParam()), ranks)));
  }
  EXPECT_EQ(began(), 2 + 3 + 4);
  EXPECT_EQ(left(), 0);
}

TEST_P(MpiModule, EndsAllRanksWhereOneAborts) {
  const Outcome outcome = run_ranks(3, "abort");
  EXPECT_THAT(outcome, AbortedWith(41));
  EXPECT_EQ(began(), 3);
  EXPECT_EQ(left(), 0);
}

TEST_P(MpiModule, EndsAllRanksWhereOneDies) {
  const Outcome outcome = run_ranks(3, "exit");
  EXPECT_TRUE(failed(outcome)) << outcome.text;
  EXPECT_EQ(began(), 3);
  EXPECT_EQ(left(), 0);
}

TEST_P(MpiModule, EndsAllRanksWhereOneThrows) {
  const Outcome outcome = run_ranks(3, "throw");
  EXPECT_THAT(outcome, AbortedWith(exit_code(ErrorCode::kCommunication)));
  EXPECT_THAT(outcome.text, HasSubstr("rank 2: a fault of the last rank"));
  EXPECT_EQ(began(), 3);
  EXPECT_EQ(left(), 0);
}

TEST_P(MpiModule, MakesErrorsOfMpiOurs) {
  const Outcome outcome = run_ranks(2, "different_sizes");
  EXPECT_THAT(outcome, AbortedWith(exit_code(ErrorCode::kCommunication)));
  EXPECT_THAT(outcome.text, HasSubstr("rank 0: [mpi] all_gather failed on rank 0 of 2: "));
  EXPECT_THAT(outcome.text, testing::ContainsRegex("[Tt]runcate"));
  EXPECT_EQ(left(), 0);
}

TEST_P(MpiModule, NamesBothWhereTheLauncherIsAnotherMpis) {
  const char* const other = std::string_view(GetParam()) == "openmpi" ? "mpich" : "openmpi";
  if (!is_built(other)) GTEST_SKIP() << "there is one MPI alone";
  set("ISOCHRON_MPI", other);
  const Outcome outcome = run_ranks(2, "collectives");
  EXPECT_EQ(outcome.status, 3) << outcome.text;
  EXPECT_THAT(outcome.text,
              testing::ContainsRegex(fmt::format(
                  "communication: \\[mpi\\] {} [0-9.]+ finds 1 rank, but {}'s mpirun .* has started 2",
                  spelled(other), spelled(GetParam()))));
  EXPECT_EQ(left(), 0);
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiModule, testing::Values("openmpi", "mpich"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace isochron::comm
