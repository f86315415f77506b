#include "isochron/observe/interleaved/worker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/run_folder.h"
#include "isochron/observe/host/resident_set.h"
#include "isochron/observe/interleaved/interleaved_runner.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"
#include "support/temp_folder.h"

namespace isochron::observe {
namespace {

/// Counts until it is told to end.
std::string count_calls(Turns& turns) {
  int64_t counted = 0;
  const auto told = [&counted] { return fmt::format("{}", counted); };
  do {
    while (!turns.over(running_ns())) ++counted;
  } while (turns.wait(told));
  return told();
}

int64_t number(const std::string& text) { return std::atoll(text.c_str()); }

TEST(Worker, GoesOnFromTurnToTurnUntilItIsToEnd) {
  Worker worker(count_calls);
  worker.run(0.002);
  const int64_t first = number(worker.snapshot());
  EXPECT_GT(first, 0);
  EXPECT_EQ(number(worker.snapshot()), first) << "it stands still between its turns";
  worker.run(0.002);
  const int64_t second = number(worker.snapshot());
  EXPECT_GT(second, first);
  EXPECT_FALSE(worker.ended());
  EXPECT_EQ(number(worker.finish()), second);
  EXPECT_TRUE(worker.ended());
}

TEST(Worker, WithoutDescriptorsSaysWhatIsMissing) {
  if (kSanitizer) GTEST_SKIP() << "descriptors can't be limited here";
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{3, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  errno = ENOTTY;  // from an earlier call
  EXPECT_ERROR(Worker(count_calls), ErrorCode::kIo,
               "[worker] cannot create a channel to the process: Too many open files");
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(Worker, TakesNoMemoryFromTheHeapOfItsCaller) {
  constexpr int64_t kBytes = 16 << 20;
  const auto take = [] {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int64_t i = 0; i < kBytes / 1000; ++i) {
      blocks.push_back(std::make_unique<char[]>(1000 - 16));
      blocks.back()[0] = 1;
    }
    return blocks;
  };
  auto blocks = take();
  blocks.erase(blocks.begin(), blocks.end() - 1);  // the last one keeps the heap from shrinking
  Worker worker([&](Turns&) {
    const int64_t before = read_resident_set({}).total;
    const auto taken = take();
    return fmt::format("{}", read_resident_set({}).total - before);
  });
  worker.run(1);
  const int64_t grown = number(worker.finish());
  if (!kSanitizer) {  // whose heap has no end to give back
    EXPECT_GT(grown, kBytes / 4 * 3);
  }
}

TEST(Worker, HasTurnsForComparisonAfterItsRun) {
  Worker worker([](Turns& turns) {
    int64_t counted = 0;
    const auto told = [&counted] { return fmt::format("{}", counted); };
    for (bool more = true; more;) {
      if (++counted == 1000) turns.end_run();
      if (counted == 1000 || turns.over(running_ns())) more = turns.wait(told);
    }
    return told();
  });
  while (!worker.run_ended()) worker.run(0.001);
  EXPECT_EQ(number(worker.snapshot()), 1000) << "its turn was over with its run";
  EXPECT_FALSE(worker.ended());
  worker.run(0.002);
  EXPECT_GT(number(worker.snapshot()), 1000);
  EXPECT_TRUE(worker.run_ended());
  EXPECT_GT(number(worker.finish()), 1000);
}

TEST(Worker, TwoTakeTurnsWithoutKnowingOfEachOther) {
  Worker a(count_calls), b(count_calls);
  for (int i = 0; i < 3; ++i) {
    a.run(0.001);
    b.run(0.001);
  }
  EXPECT_GT(number(a.finish()), 0);
  EXPECT_GT(number(b.finish()), 0);
}

TEST(Worker, ItsClockStandsStillBetweenTurns) {
  Worker worker([](Turns& turns) {
    const int64_t running = running_ns(), real = now_ns();
    turns.wait([] { return std::string(); });
    const int64_t ran = running_ns() - running, passed = now_ns() - real;
    return fmt::format("{} {}", ran, passed);
  });
  worker.run(0.001);
  usleep(20'000);
  long long ran = 0, passed = 0;
  ASSERT_EQ(std::sscanf(worker.finish().c_str(), "%lld %lld", &ran, &passed), 2);
  EXPECT_GE(passed, 20'000'000);
  EXPECT_LT(ran, passed);
}

/// Each iteration takes 10 us of this thread's time.
std::string iterate(Turns& turns) {
  int64_t begun_anew = 0;
  const auto told = [&begun_anew] { return fmt::format("{}", begun_anew); };
  do {
    begun_anew += turns.take_anew();
    while (!turns.over(running_ns())) {
      const int64_t began_ns = now_ns();
      while (now_ns() - began_ns < 10'000) continue;
      turns.add(now_ns() - began_ns);
    }
  } while (turns.wait(told));
  return told();
}

TEST(Worker, ATurnGivesItsTimes) {
  Worker worker(iterate);
  const TurnTimes times = worker.run(0.002);
  EXPECT_GT(times.iterations, 0);
  EXPECT_GE(times.median_ns, 10'000);
  EXPECT_GE(times.usual_ns, 10'000);
  EXPECT_EQ(worker.run(0.05, true).iterations > 4096, false) << "so many are kept";
  EXPECT_EQ(worker.run(1e-9).iterations, 0) << "each turn has its own";
  EXPECT_EQ(worker.finish(), "1") << "turns that begin anew";
}

TEST(Worker, StaysWhereItIsPut) {
  Worker worker([](Turns& turns) {
    std::binary_semaphore asked(0), answered(0);
    size_t others = 0;
    std::jthread other([&](const std::stop_token& stop) {
      for (asked.acquire(); !stop.stop_requested(); asked.acquire()) {
        others = cores().size();
        answered.release();
      }
    });
    std::string seen;
    do {
      asked.release();
      answered.acquire();
      seen += fmt::format("{}/{} ", cores().size(), others);
    } while (turns.wait([] { return std::string(); }));
    other.request_stop();
    asked.release();
    return seen;
  });
  const std::vector<int> all = cores();
  ASSERT_FALSE(all.empty());
  worker.run(0.001);
  worker.stay_on(all.back(), all);
  worker.run(0.001);
  worker.stay_on(-1, all);
  worker.run(0.001);
  EXPECT_EQ(worker.finish(),
            fmt::format("{0}/{0} 1/{1} {0}/{0} ", all.size(), std::max<size_t>(1, all.size() - 1)));
}

TEST(InterleavedRunner, GivesBothTheirTurns) {
  Worker loop(iterate), twin(iterate);
  std::vector<TurnPair> pairs;
  run_interleaved(loop, twin, 0.01, pairs);
  EXPECT_GE(pairs.size(), kMinTurnPairs);
  for (const TurnPair& pair : pairs) {
    EXPECT_GE(pair.loop.median_ns, 10'000);
    EXPECT_GE(pair.twin.median_ns, 10'000);
  }
  const size_t before = pairs.size();
  run_interleaved(loop, twin, 1, pairs);
  EXPECT_GT(pairs.size(), before) << "they are added to";
}

TEST(InterleavedRunner, GivesUpOnLoopsThatTimeNothing) {
  Worker loop(count_calls), twin(iterate);
  std::vector<TurnPair> pairs;
  run_interleaved(loop, twin, 0.01, pairs);
  EXPECT_TRUE(pairs.empty());
}

/// Iterations of 20 us until `left` are left.
BesideTwin::Mark go_on(BesideTwin& beside, int64_t& left, int64_t until) {
  while (left > until) {
    const int64_t began_ns = running_ns();
    while (running_ns() - began_ns < 20'000) continue;
    const BesideTwin::Mark mark = beside.next(running_ns() - began_ns, --left);
    if (mark != BesideTwin::Mark::kNone) return mark;
  }
  return BesideTwin::Mark::kNone;
}

TEST(BesideTwin, IsBesideItBeforeTheRunAndAtItsEnd) {
  Worker twin(iterate);
  BesideTwin beside(twin);
  int64_t left = 10'000'000;
  ASSERT_EQ(go_on(beside, left, 0), BesideTwin::Mark::kRunBegins);
  EXPECT_GE(beside.turns().before.size(), kMinTurnPairs);
  EXPECT_EQ(go_on(beside, left, left - 105'000), BesideTwin::Mark::kNone) << "nearly 200 s of it are left";
  EXPECT_TRUE(beside.turns().after.empty());
  left = 1000;
  ASSERT_EQ(go_on(beside, left, 0), BesideTwin::Mark::kRunEnds);
  for (int tries = 0; beside.turns().after.size() < kMinTurnPairs && tries < 1000; ++tries) {
    left = 1000;
    EXPECT_EQ(go_on(beside, left, 0), BesideTwin::Mark::kNone);
  }
  EXPECT_GE(beside.turns().after.size(), kMinTurnPairs);
  for (const TurnPair& pair : beside.turns().after) {
    EXPECT_GE(pair.loop.median_ns, 20'000);
    EXPECT_GE(pair.twin.median_ns, 10'000);
  }
}

TEST(BesideTwin, GoesOnAloneWithoutATwin) {
  Worker twin([](Turns&) { return std::string("at once"); });
  BesideTwin beside(twin);
  int64_t left = 10'000'000;
  EXPECT_EQ(go_on(beside, left, left - 1000), BesideTwin::Mark::kNone);
  EXPECT_TRUE(beside.turns().before.empty());
}

TEST(BesideTwin, LeavesAShortRunWhole) {
  Worker twin(iterate);
  for (const int64_t iterations : {40, 50'000}) {  // too few; too short a time: 1 s
    BesideTwin beside(twin);
    for (int64_t left = iterations; left-- > 0;)
      ASSERT_EQ(beside.next(20'000, left), BesideTwin::Mark::kNone);
    int64_t more = 30'000;  // 0.6 s, in which a comparison would take turns
    EXPECT_EQ(go_on(beside, more, 0), BesideTwin::Mark::kNone);
    EXPECT_TRUE(beside.turns().before.empty());
  }
  BesideTwin beside(twin);
  int64_t left = 10'000'000;
  ASSERT_EQ(go_on(beside, left, 0), BesideTwin::Mark::kRunBegins);
  left = 1000;  // it seemed longer than it is
  EXPECT_EQ(go_on(beside, left, 0), BesideTwin::Mark::kNone);
  EXPECT_TRUE(beside.turns().after.empty());
}

TEST(InterleavedRunner, EndsWithTheLoop) {
  Worker loop([](Turns&) { return std::string("at once"); });
  Worker twin(iterate);
  std::vector<TurnPair> pairs;
  run_interleaved(loop, twin, 10, pairs);
  EXPECT_TRUE(loop.ended());
  EXPECT_TRUE(pairs.empty());
}

TEST(Worker, WorkThatEndsByItselfNeedsOneTurn) {
  const std::string long_text(1 << 20, 'x');
  Worker worker([&](Turns&) { return long_text; });
  worker.run(0.001);
  EXPECT_TRUE(worker.ended());
  EXPECT_EQ(worker.finish(), long_text);
}

TEST(Worker, LeavesToItsCallerWhatATerminalSendsToBoth) {
  Worker worker([](Turns&) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::raise(signal);
    return std::string("goes on");
  });
  worker.run(0.001);
  EXPECT_EQ(worker.finish(), "goes on");
}

TEST(Worker, WhatItPrintsIsKept) {
  std::fputs("before ", stdout);  // not flushed: it must not be printed twice
  Worker worker([](Turns&) {
    fmt::print("one\n");
    std::fflush(stdout);
    fmt::print("two\n");
    return std::string();
  });
  worker.run(0.001);
  EXPECT_EQ(worker.printed(), "one\ntwo\n");
}

TEST(Worker, WhatItThrowsReachesTheCaller) {
  Worker own(
      [](Turns&) -> std::string { fail(ErrorCode::kBadFormat, "a file", "not what it should be:\n{}", 7); });
  try {
    own.run(0.001);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadFormat);
    EXPECT_EQ(error.where(), "a file");
    EXPECT_STREQ(error.what(), "[a file] not what it should be:\n7");
  }
  EXPECT_TRUE(own.ended());
  Worker without_memory([](Turns&) -> std::string { throw std::bad_alloc(); });
  EXPECT_ERROR(without_memory.run(0.001), ErrorCode::kOutOfMemory, "the system has no memory left");
  Worker other([](Turns&) -> std::string { throw std::runtime_error("of another kind"); });
  EXPECT_ERROR(other.run(0.001), ErrorCode::kUnsupported, "of another kind");
}

TEST(Worker, ADeadProcessIsAnError) {
  Worker killed([](Turns&) {
    raise(SIGKILL);
    return std::string();
  });
  EXPECT_ERROR(killed.run(0.001), ErrorCode::kIo, "its process ended without a result, by signal 9");
  Worker left([](Turns&) -> std::string { _exit(3); });
  EXPECT_ERROR(left.run(0.001), ErrorCode::kIo, "its process ended without a result");
  Worker starved([](Turns&) -> std::string { _exit(exit_code(ErrorCode::kOutOfMemory)); });
  EXPECT_ERROR(starved.run(0.001), ErrorCode::kOutOfMemory, "its process ran out of memory");
}

TEST(Worker, WhatOneThatIsKilledMadeGoesWithIt) {
  const TempFolder parent;
  const auto work = [&parent](Turns& turns) {
    const RunFolder folder(parent.path());
    return count_calls(turns);
  };
  {
    Worker worker(work);
    worker.run(0.001);
    EXPECT_FALSE(std::filesystem::is_empty(parent.path()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(parent.path()));
}

}  // namespace
}  // namespace isochron::observe
