// Which ranks a rank waits for while MPI starts and ends, determined from the processes of its launcher. Here
// the test is the launcher.
#include "isochron/comm/launch/launch_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <future>

#include "comm/support/no_launcher.h"
#include "isochron/core/base/error.h"
#include "support/expect_error.h"

namespace isochron::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::Field;
using testing::HasSubstr;
using State = LocalRank::State;

constexpr std::array<std::string_view, 1> kVariables = {"PMI_RANK="};

Launch launch_of(int rank, int size, int local_size = 0) {
  return {.mpi = "mpich",
          .launcher = "a test",
          .rank = rank,
          .size = size,
          .local_rank = 0,
          .local_size = local_size > 0 ? local_size : size};
}

/// A process started as rank `rank`; it ends with the test.
class RankProcess {
 public:
  RankProcess(int rank, const std::string& line) {
    const std::string variable = fmt::format("PMI_RANK={}", rank);
    std::string shell = "sh", option = "-c", text = line, path = "PATH=/usr/bin:/bin", own = variable;
    char* arguments[] = {shell.data(), option.data(), text.data(), nullptr};
    char* environment[] = {path.data(), own.data(), nullptr};
    posix_spawnattr_t attributes;  // a group of its own, which also contains the processes that it starts
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    EXPECT_EQ(posix_spawn(&id_, "/bin/sh", nullptr, &attributes, arguments, environment), 0);
    posix_spawnattr_destroy(&attributes);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() { end(); }
  pid_t id() const { return id_; }
  void send(int signal) const { kill(-id_, signal); }
  /// Ends the process without reaping it.
  void become_zombie() const {
    send(SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT);
  }
  void end() {
    if (id_ == 0) return;
    send(SIGKILL);
    waitpid(id_, nullptr, 0);
    id_ = 0;
  }

 private:
  pid_t id_ = 0;
};

std::vector<LocalRank> seen() { return local_ranks(getpid(), "sleep", kVariables); }

/// Polls for at most ten seconds until `seen` matches: processes take time to start.
template <typename Matcher>
void expect_to_see(const Matcher& matcher) {
  for (int i = 0; i < 1000 && !testing::Value(seen(), matcher); ++i) usleep(10'000);
  EXPECT_THAT(seen(), matcher);
}

auto is(int rank, const RankProcess& process, State state) {
  return AllOf(Field(&LocalRank::rank, rank), Field(&LocalRank::process, process.id()),
               Field(&LocalRank::state, state));
}

TEST(LocalRanks, AreSeenWithWhatTheyDo) {
  RankProcess other(2, "exec tail -f /dev/null");
  RankProcess running(0, "exec sleep 60"), wrapped(1, "sleep 60; true"), stopped(3, "exec sleep 60");
  stopped.send(SIGSTOP);
  expect_to_see(ElementsAre(is(0, running, State::kRunning), is(1, wrapped, State::kRunning),
                            is(2, other, State::kOther), is(3, stopped, State::kStopped)));
  stopped.send(SIGCONT);
  running.become_zombie();
  other.end();
  expect_to_see(ElementsAre(is(1, wrapped, State::kRunning), is(3, stopped, State::kRunning)));
  EXPECT_THAT(local_ranks(wrapped.id(), "sleep", kVariables),
              ElementsAre(Field(&LocalRank::rank, 1)));  // processes that it has started have its environment
}

TEST(LocalRanks, GoByTheInnerLauncherWhereOneIsStartedWithinAnother) {
  const std::array<std::string_view, 2> variables = {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="};
  RankProcess inner(0, "OMPI_COMM_WORLD_RANK=2 exec sleep 60");  // behind the variable that it inherits
  for (int i = 0; i < 1000; ++i) {
    const auto ranks = local_ranks(getpid(), "sleep", variables);
    if (ranks.size() == 1 && ranks[0].rank == 2) break;
    usleep(10'000);
  }
  EXPECT_THAT(local_ranks(getpid(), "sleep", variables), ElementsAre(is(2, inner, State::kRunning)));
}

TEST(LocalRanks, WhatCannotBeReadIsEmpty) {
  EXPECT_EQ(text_of(fmt::format("/proc/{}/comm", getpid())).find('\n'),
            text_of("/proc/self/comm").size() - 1);
  EXPECT_EQ(text_of("/proc/self"), "") << "which can be opened, not read";
  EXPECT_EQ(text_of("/proc/self/none"), "");
}

TEST(LocalRanks, HaveTheirNearestAncestorOutsideAsTheirLauncher) {
  RankProcess rank(1, "exec sleep 60");
  expect_to_see(ElementsAre(is(1, rank, State::kRunning)));
  EXPECT_EQ(launcher_process(kVariables, rank.id()), getpid());
  EXPECT_EQ(launcher_process(kVariables, getpid()), 0) << "of what is no rank";
}

TEST(LocalRanks, ThatProcess1HasTakenOverHaveNoKnownLauncher) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  // Its parent ends at once.
  RankProcess first(1, fmt::format("sleep 60 >/dev/null & echo $! >/proc/{}/fd/{}", getpid(), ends[1]));
  std::array<char, 32> said{};
  ASSERT_GT(read(ends[0], said.data(), said.size() - 1), 0);
  close(ends[0]);
  close(ends[1]);
  const pid_t orphan = std::atoi(said.data());
  const auto parent = [&] {
    const std::string stat = text_of(fmt::format("/proc/{}/stat", orphan));
    const size_t behind = stat.rfind(") ");
    return behind == std::string::npos ? -1 : std::atoi(stat.c_str() + behind + 4);
  };
  for (int i = 0; i < 1000 && parent() == first.id(); ++i) usleep(10'000);
  const pid_t taken_by = parent();
  EXPECT_EQ(launcher_process(kVariables, orphan), taken_by > 1 ? taken_by : 0);
  if (taken_by > 1) GTEST_SKIP() << "here process " << taken_by << " takes over those whose parent has ended";
}

class LaunchText : public testing::Test {
 protected:
  std::string text(const std::vector<LocalRank>& ranks, LaunchPhase phase = LaunchPhase::kStart) const {
    return launch_wait_text({launch_, phase, 61.2, ranks});
  }
  Launch launch_ = launch_of(0, 3);
};

TEST_F(LaunchText, NamesThoseThatAreNotAtIt) {
  EXPECT_EQ(text({{0, 40, State::kRunning}, {1, 41, State::kStopped}, {2, 42, State::kOther}}),
            "rank 0 of 3 has been starting MPI for 61 s, which needs all ranks: rank 1 (process 41) is "
            "stopped; rank 2 (process 42) has not reached this point");
  EXPECT_THAT(
      text({{0, 40, State::kRunning}, {1, 41, State::kRunning}, {2, 42, State::kStopped}}, LaunchPhase::kEnd),
      AllOf(HasSubstr("has been ending MPI for 61 s"), HasSubstr("ranks: rank 2 (process 42) is")));
}

TEST_F(LaunchText, NamesThoseThatAreNotThere) {
  EXPECT_THAT(text({{0, 40, State::kRunning}, {2, 42, State::kRunning}}),
              EndsWith("all ranks: rank 1 is not running"));
  EXPECT_THAT(text({{0, 40, State::kRunning}}), EndsWith("all ranks: ranks 1 and 2 are not running"));
  launch_.size = 5;
  EXPECT_THAT(text({{0, 40, State::kRunning}, {3, 42, State::kStopped}}),
              EndsWith("all ranks: rank 3 (process 42) is stopped; of the 3 ranks of this machine, 1 is not "
                       "running; the state of the 2 on other machines is unknown"));
}

TEST_F(LaunchText, SaysWhereNobodyIsMissing) {
  const std::vector<LocalRank> all = {
      {0, 40, State::kRunning}, {1, 41, State::kRunning}, {2, 42, State::kRunning}};
  EXPECT_THAT(text(all), EndsWith("all ranks: all 3 ranks of this machine have reached this point"));
  launch_.size = 5;
  EXPECT_THAT(text(all),
              EndsWith("have reached this point; the state of the 2 on other machines is unknown"));
  launch_.local_size = 1;  // the launcher doesn't say
  EXPECT_THAT(text(all),
              EndsWith("have reached this point; the state of the 2 on other machines is unknown"));
  EXPECT_THAT(text({}), EndsWith("all ranks: the state of the 4 on other machines is unknown"));
  launch_.local_size = 5;
  EXPECT_THAT(text({}), EndsWith("all ranks: the state of the others is unknown"));
}

/// What a watch has said, and how it has ended the run.
struct Said {
  std::promise<std::string> told, ended;
  std::atomic<int> times{0};
  LaunchWatchOptions options(nanoseconds patience) {
    return {.patience = patience,
            .tell =
                [this](const std::string& text) {
                  if (times++ == 0) told.set_value(text);
                },
            .end = [this](const std::string& text) { ended.set_value(text); }};
  }
};

std::string text_of(std::promise<std::string>& promise) {
  std::future<std::string> text = promise.get_future();
  return text.wait_for(std::chrono::seconds(60)) == std::future_status::ready ? text.get() : "nothing";
}

using Watch = NoLauncher;
constexpr nanoseconds kForEver = std::chrono::hours(24);

TEST_F(Watch, TellsOfAStartThatTakesLong) {
  const Launch launch = launch_of(0, 2);
  Said said;
  const LaunchWatch watch(LaunchPhase::kStart, launch, said.options(milliseconds(40)));
  EXPECT_THAT(text_of(said.told), HasSubstr("rank 0 of 2 has been starting MPI for"));
}

TEST_F(Watch, EndsTheRunWhereThatIsAskedFor) {
  const Launch launch = launch_of(0, 2);
  Said said;
  LaunchWatchOptions options = said.options(kForEver);
  options.end_after = milliseconds(40);
  const LaunchWatch watch(LaunchPhase::kEnd, launch, options);
  EXPECT_THAT(text_of(said.ended), AllOf(HasSubstr("has been ending MPI for"), HasSubstr(". The run ends.")));
  EXPECT_EQ(said.times, 0);
}

TEST_F(Watch, EndsAStartInWhichARankHasEnded) {
  const Launch launch = launch_of(2, 3, 2);  // of the two on this machine none is it
  RankProcess lost(0, "exec sleep 60"), there(1, "exec sleep 60");
  expect_to_see(testing::SizeIs(2));
  Said said;
  LaunchWatchOptions options = said.options(kForEver);
  options.end_after_loss = milliseconds(400);
  const LaunchWatch watch(LaunchPhase::kStart, launch, options, getpid());
  std::future<std::string> ended = said.ended.get_future();
  EXPECT_EQ(ended.wait_for(milliseconds(1200)), std::future_status::timeout);
  lost.end();
  ASSERT_EQ(ended.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_THAT(ended.get(), HasSubstr("of the 2 ranks of this machine, 1 is not running"));
}

TEST_F(Watch, AnEndInWhichRanksLeaveGoesOn) {
  const Launch launch = launch_of(2, 3, 2);
  RankProcess there(1, "exec sleep 60");
  expect_to_see(testing::SizeIs(1));
  Said said;
  LaunchWatchOptions options = said.options(milliseconds(400));
  options.end_after_loss = milliseconds(50);
  const LaunchWatch watch(LaunchPhase::kEnd, launch, options, getpid());
  EXPECT_THAT(text_of(said.told), HasSubstr("of the 2 ranks of this machine, 1 is not running"));
  EXPECT_EQ(said.ended.get_future().wait_for(milliseconds(0)), std::future_status::timeout);
}

TEST_F(Watch, LeavesTheWordToALowerRank) {
  const Launch second = launch_of(1, 2);
  // Its only thread has the name of a watch's thread.
  RankProcess lower(0, "printf 'starting MPI' > /proc/self/comm; tail -f /dev/null; true");
  for (int i = 0; i < 1000; ++i) {
    const auto ranks = local_ranks(getpid(), "starting MPI", kVariables);
    if (ranks.size() == 1 && ranks[0].state == State::kRunning) break;
    usleep(10'000);
  }
  Said said;
  LaunchWatchOptions options = said.options(milliseconds(1));
  options.end_after = milliseconds(400);
  const LaunchWatch watch(LaunchPhase::kStart, second, options, getpid());
  EXPECT_EQ(text_of(said.ended), "");
  EXPECT_EQ(said.times, 0);
}

TEST_F(Watch, IsOverOnceMpiHasStarted) {
  const Launch launch = launch_of(0, 2);
  Said said;
  { const LaunchWatch watch(LaunchPhase::kStart, launch, said.options(kForEver)); }
  EXPECT_EQ(said.times, 0);
  EXPECT_ERROR(LaunchWatch(LaunchPhase::kStart, launch, {.patience = nanoseconds(0)}),
               ErrorCode::kInvalidArgument, "patience and end_after_loss must be above 0");
}

}  // namespace
}  // namespace isochron::comm
