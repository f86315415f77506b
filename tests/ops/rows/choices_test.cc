#include "isochron/backends/common/choices.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>
#include <utility>

#include "isochron/backends/common/choices_file.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/files/file.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/notices.h"
#include "support/temp_folder.h"

namespace isochron::ops {
namespace {

namespace fs = std::filesystem;
using Choices = std::map<std::string, std::string>;
using testing::ElementsAre;
using testing::Pair;

/// The choices without the mark of those that were made while the machine was busy.
Choices settled(Choices choices) {
  for (auto& [call, choice] : choices) {
    if (choice.ends_with('?')) choice.pop_back();
  }
  return choices;
}

/// Uses its own cache folder. forget_choices simulates a new process.
class ChoicesOnDisk : public testing::Test {
 protected:
  ChoicesOnDisk() {
    setenv("ISOCHRON_CACHE", folder_.path().c_str(), 1);
    forget_choices();
  }
  ~ChoicesOnDisk() override {
    setenv("ISOCHRON_CACHE", "off", 1);
    set_deterministic(false);
    forget_choices();
  }

  /// The candidate chosen for `call`; `timings_` counts the candidates run.
  std::string chosen(const std::string& call, size_t useless = 9) {
    const size_t index = choose(call, kNames, [&](size_t i) -> std::function<void()> {
      if (i == useless) return {};
      return [this, i] {
        ++timings_;
        if (i != 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));  // so "quick" wins
      };
    });
    return index < kNames.size() ? std::string(kNames[index]) : "none";
  }
  std::string content() const {
    const auto bytes = read_file(path());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static fs::path path() { return choices_path(); }

  static constexpr std::array<std::string_view, 3> kNames = {"first", "quick", "other"};
  TempFolder folder_;
  int timings_ = 0;
  const Notices notices_;
};

TEST_F(ChoicesOnDisk, ANewProcessDoesNotTimeAgain) {
  EXPECT_EQ(chosen("a"), "quick");
  EXPECT_GT(timings_, 0);
  EXPECT_FALSE(fs::exists(path())) << "written once, when saved";
  save_choices();
  forget_choices();
  timings_ = 0;
  EXPECT_TRUE(recorded_choices().empty());
  EXPECT_EQ(chosen("a"), "quick");
  EXPECT_EQ(timings_, 0);
  EXPECT_THAT(recorded_choices(), ElementsAre(Pair("a", "quick")));
  EXPECT_EQ(chosen("b"), "quick");
  EXPECT_GT(timings_, 0) << "another call";
  EXPECT_TRUE(notices_.texts().empty());
}

TEST_F(ChoicesOnDisk, WhatIsMuchSlowerHasOneTurn) {
  struct Turns {
    std::array<int, 3> of{};
    int preparations = 0;
    size_t last = 9;
  };
  /// How many turns candidates have that take so many ms; negative: one doesn't serve.
  const auto turns_of = [](const std::string& call, const std::array<int, 3>& ms) {
    Turns turns;
    const auto prepare = [&](size_t i) -> std::function<void()> {
      if (ms[i] < 0) return {};
      return [&turns, &ms, i] {
        EXPECT_EQ(turns.preparations, 1);
        if (std::exchange(turns.last, i) != i) ++turns.of[i];
        std::this_thread::sleep_for(std::chrono::milliseconds(ms[i]));
      };
    };
    choose(call, kNames, prepare, [&] { ++turns.preparations; });
    return turns;
  };
  EXPECT_EQ(turns_of("different", {60, 0, 60}).of, (std::array{1, 1, 1})) << "then one is left";
  EXPECT_EQ(turns_of("different", {60, 0, 60}).of, (std::array{0, 0, 0})) << "timed once a process";
  const Turns alone = turns_of("alone", {-1, -1, 6});
  EXPECT_EQ(alone.of[2] + alone.preparations, 0) << "nothing to choose from";
}

/// While it exists, the calling thread shares its core with a busy thread.
class SharedCore {
 public:
  SharedCore() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof(one), &one);  // which the other thread inherits
    other_ = std::jthread([](std::stop_token stop) {
      while (!stop.stop_requested()) {
      }
    });
  }
  ~SharedCore() { sched_setaffinity(0, sizeof(before_), &before_); }

  static long preemptions() {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }

 private:
  cpu_set_t before_;
  std::jthread other_;
};

TEST_F(ChoicesOnDisk, WhatWasTimedOnlyWhileItsCoreWasTakenAwayIsTimedOnceMore) {
  int runs = 0;
  const auto choose_while_disturbed = [&] {
    runs = 0;
    const SharedCore shared;
    const size_t index = choose("a", kNames, [&runs](size_t i) -> std::function<void()> {
      return [&runs, i] {
        ++runs;
        const long before = SharedCore::preemptions();
        while (i == 0 && SharedCore::preemptions() == before) {
        }
      };
    });
    return std::string(kNames[index]);
  };
  const auto kept_after = [](const std::string& name) {
    EXPECT_THAT(recorded_choices(), ElementsAre(Pair("a", name)));
    save_choices();
    forget_choices();
    return read_choices_file(path()).at("a");
  };
  const std::string doubtful = choose_while_disturbed();
  EXPECT_EQ(kept_after(doubtful), doubtful + kDoubtful);
  const std::string again = choose_while_disturbed();
  EXPECT_GT(runs, 0);
  EXPECT_EQ(kept_after(again), again);
  EXPECT_EQ(choose_while_disturbed(), again);
  EXPECT_EQ(runs, 0) << "two timings must do";
}

TEST_F(ChoicesOnDisk, ASlowRunThatWasInterruptedHasAnother) {
  int runs = 0;
  const SharedCore shared;
  const size_t index = choose("a", kNames, [&](size_t i) -> std::function<void()> {
    if (i == 2) return {};
    return [&runs, i] {
      if (i == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (runs++ > 0) return;
      const int64_t start = now_ns();
      const long before = SharedCore::preemptions();
      while (SharedCore::preemptions() == before || now_ns() - start < 20'000'000) {
      }
    };
  });
  EXPECT_EQ(index, 0u) << "its first run took ten times as long as the other's";
  EXPECT_GT(runs, 1);
}

TEST_F(ChoicesOnDisk, ACandidateThatNoLongerServesIsTimedAnew) {
  write_choices_file(path(), {{"a", "other"}, {"b", "of an older version"}});
  EXPECT_EQ(chosen("a", 2), "quick");
  EXPECT_EQ(chosen("b"), "quick");
  save_choices();
  EXPECT_EQ(settled(read_choices_file(path())), (Choices{{"a", "quick"}, {"b", "quick"}}));
}

TEST_F(ChoicesOnDisk, RestoredChoicesGoFirstAndStayOutOfTheFile) {
  write_choices_file(path(), {{"a", "other"}});
  restore_choices({{"a", "first"}, {"b", "first"}});
  EXPECT_EQ(chosen("a"), "first");
  EXPECT_EQ(chosen("b"), "first");
  EXPECT_EQ(chosen("c"), "quick");
  save_choices();
  EXPECT_EQ(settled(read_choices_file(path())), (Choices{{"a", "other"}, {"c", "quick"}}));
}

TEST_F(ChoicesOnDisk, DeterministicModeIgnoresThem) {
  write_choices_file(path(), {{"a", "other"}});
  const std::string before = content();
  set_deterministic(true);
  EXPECT_EQ(chosen("a"), "first");
  EXPECT_EQ(chosen("b"), "first");
  save_choices();
  EXPECT_EQ(timings_, 0);
  EXPECT_EQ(content(), before);
}

TEST_F(ChoicesOnDisk, WhatOtherProcessesWroteMeanwhileStays) {
  EXPECT_EQ(chosen("a"), "quick");
  write_choices_file(path(), {{"a", "first"}, {"theirs", "other"}});
  save_choices();
  EXPECT_EQ(settled(read_choices_file(path())), (Choices{{"a", "quick"}, {"theirs", "other"}}));
}

TEST_F(ChoicesOnDisk, BeyondTheCapUnusedOnesGo) {
  Choices full;
  for (size_t i = 0; i < kMaxRecordedChoices; ++i) full[fmt::format("call {:04}", i)] = "other";
  write_choices_file(path(), full);
  EXPECT_EQ(chosen("call 4095"), "other");
  EXPECT_EQ(chosen("new"), "quick");
  save_choices();
  const Choices kept = read_choices_file(path());
  EXPECT_EQ(kept.size(), kMaxRecordedChoices);
  EXPECT_TRUE(kept.contains("new"));
  EXPECT_TRUE(kept.contains("call 4095")) << "used here";
  EXPECT_FALSE(kept.contains("call 4094"));
}

TEST_F(ChoicesOnDisk, DamagedFilesAreReportedAndReplaced) {
  write_choices_file(path(), {{"a", "other"}, {"b", "first"}});
  const std::string whole = content();
  const auto expect_ignored = [&](const std::string& damaged) {
    write_file_atomically(path(), damaged);
    EXPECT_ERROR(read_choices_file(path()), ErrorCode::kBadFormat, path().string());
  };
  for (size_t size = 0; size < whole.size(); ++size) expect_ignored(whole.substr(0, size));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] ^= 1;
    expect_ignored(flipped);
  }
  expect_ignored(whole + "x");
  expect_ignored(std::string(9'000'000, 'x'));
  expect_ignored(std::string(100'000, '\n'));

  forget_choices();
  EXPECT_EQ(chosen("a"), "quick");
  EXPECT_EQ(chosen("b"), "quick");
  ASSERT_EQ(notices_.texts().size(), 1u) << "said once";
  EXPECT_THAT(notices_.texts()[0], testing::HasSubstr("choices on disk are ignored"));
  save_choices();
  EXPECT_EQ(settled(read_choices_file(path())), (Choices{{"a", "quick"}, {"b", "quick"}}));
}

TEST_F(ChoicesOnDisk, OtherMachinesHaveOtherFilesAndFewAreKept) {
  for (int i = 0; i < 20; ++i) {
    const fs::path other = folder_ / fmt::format("choices-{:016x}.txt", i);
    write_file_atomically(other, "x");
    fs::last_write_time(other, fs::file_time_type::clock::now() - std::chrono::hours(i + 1));
  }
  write_file_atomically(folder_ / "something else", "x");
  write_choices_file(path(), {{"a", "other"}});
  const auto count = std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  EXPECT_EQ(count, static_cast<std::ptrdiff_t>(kMaxChoicesFiles) + 1);
  EXPECT_TRUE(fs::exists(folder_ / "something else"));
  EXPECT_TRUE(fs::exists(folder_ / "choices-0000000000000000.txt")) << "the newest of the others";
  EXPECT_EQ(read_choices_file(path()).size(), 1u);
}

TEST_F(ChoicesOnDisk, AFolderThatCannotBeWrittenChangesNothing) {
  const fs::path blocked = folder_ / "file";
  write_file_atomically(blocked, "x");
  setenv("ISOCHRON_CACHE", (blocked / "below").c_str(), 1);
  EXPECT_EQ(chosen("a"), "quick");
  save_choices();
  EXPECT_THAT(recorded_choices(), ElementsAre(Pair("a", "quick")));
  EXPECT_ERROR(write_choices_file(path(), {}), ErrorCode::kIo, "cannot create the folder");
}

TEST_F(ChoicesOnDisk, APipeInTheFilesPlaceDoesNotBlock) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(chosen("a"), "quick");
  save_choices();
  EXPECT_EQ(notices_.texts().size(), 1u);
  EXPECT_TRUE(fs::is_fifo(path()));
}

TEST_F(ChoicesOnDisk, LieWhereTheEnvironmentSays) {
  const std::string name = path().filename();
  EXPECT_THAT(name, testing::MatchesRegex("choices-[0-9a-f]+.txt"));
  EXPECT_EQ(path().parent_path(), folder_.path());
  setenv("ISOCHRON_CACHE", "off", 1);
  EXPECT_EQ(path(), "");
  EXPECT_EQ(chosen("a"), "quick");
  save_choices();
  EXPECT_TRUE(fs::is_empty(folder_.path()));

  const auto value = [](const char* variable) -> std::string {
    const char* text = std::getenv(variable);
    return text ? text : "";
  };
  const std::string home = value("HOME");
  const std::string cache = value("XDG_CACHE_HOME");
  unsetenv("ISOCHRON_CACHE");
  setenv("HOME", "/home/somebody", 1);
  setenv("XDG_CACHE_HOME", "/var/cache/somebody", 1);
  EXPECT_EQ(path(), "/var/cache/somebody/isochron/" + name);
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  EXPECT_EQ(path(), "/home/somebody/.cache/isochron/" + name);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(path(), "");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  setenv("ISOCHRON_CACHE", "off", 1);
}

TEST_F(ChoicesOnDisk, CallsThatFitNoLineAreLeftOut) {
  const Choices odd{{"new\nline", "a"}, {std::string(5000, 'x'), "a"}, {"tab\there", "a"}, {"plain", "a b"}};
  write_choices_file(path(), odd);
  EXPECT_EQ(read_choices_file(path()), (Choices{{"plain", "a b"}}));
}

TEST_F(ChoicesOnDisk, ACaptureSavesThemAndReplaysDoNot) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // captures in a row share one save
  auto step = capture([](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  const Tensor a = ones({64, 64});
  step(a, a);
  ASSERT_FALSE(recorded_choices().empty()) << "nothing was timed";
  Choices saved = read_choices_file(path());
  for (auto& [call, kernel] : saved) {
    if (kernel.ends_with(kDoubtful)) kernel.pop_back();  // other programs had the core then
  }
  EXPECT_EQ(saved, recorded_choices());
  fs::remove(path());
  for (int i = 0; i < 3; ++i) step(a, a);
  EXPECT_FALSE(fs::exists(path()));
}

}  // namespace
}  // namespace isochron::ops
