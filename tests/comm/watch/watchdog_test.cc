// Ranks as threads of one process. tests/apps/ranks_test.cc tests stopped processes.
#include "isochron/comm/watch/watchdog.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "isochron/apps/allocation_counter.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"
#include "support/temp_folder.h"

namespace isochron::comm {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

/// Messages of all ranks; a wait for a message takes at most a minute.
class Messages {
 public:
  void add(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    all_.push_back(text);
    changed_.notify_all();
  }
  bool wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      return std::ranges::any_of(
          all_, [&](const std::string& text) { return text.find(part) != std::string::npos; });
    });
  }
  std::vector<std::string> all() {
    const std::scoped_lock lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

/// Waits for a minute at most.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
  return condition();
}

TEST(Watchdog, NamesTheRankThatOthersWaitFor) {
  const TempFolder folder;
  Messages messages;
  run_ranks(3, [&](const std::shared_ptr<Group>& group) {
    Watchdog watchdog(group, {.patience = milliseconds(200),
                              .folder = folder / "ranks",
                              .tell = [&](const std::string& text) { messages.add(text); }});
    EXPECT_EQ(watchdog.folder(), folder / "ranks");
    if (group->rank() == 1) {
      const Doing doing(&group->activity(), "planning");
      EXPECT_TRUE(messages.wait_for("has not entered"));
    }
    group->barrier("the start");
    if (group->rank() == 0) {
      EXPECT_TRUE(messages.wait_for("the run continues"));
    }
    group->barrier();
  });
  const std::vector<std::string> all = messages.all();
  ASSERT_FALSE(all.empty());
  EXPECT_THAT(all.front(),
              AllOf(HasSubstr("rank 1 (host "), HasSubstr("has not entered collective 3 (the start); "),
                    HasSubstr("Ranks 0 and 2 wait, for ")));
  EXPECT_THAT(all, testing::Contains(HasSubstr("collective 3 (the start) has completed after ")));
  EXPECT_FALSE(std::filesystem::exists(folder / "ranks")) << "files are removed at a good end";
}

TEST(Watchdog, LooksOftenEnoughToKnowWhoLives) {
  using std::chrono::nanoseconds;
  for (const nanoseconds patience : {nanoseconds(milliseconds(200)), nanoseconds(std::chrono::minutes(1)),
                                     nanoseconds(std::chrono::hours(2))}) {
    const nanoseconds tick = watchdog_tick(patience);
    for (nanoseconds waited = tick; waited < std::chrono::hours(200); waited *= 2)
      EXPECT_LE((looks_apart(waited, patience) + tick).count(), patience.count() / 2)
          << "what is half the patience old counts as standing still";
  }
  EXPECT_GT(looks_apart(std::chrono::minutes(10), std::chrono::minutes(1)), std::chrono::seconds(4))
      << "but less often than at first";
}

TEST(Watchdog, SaysNothingWhileAllGoesWell) {
  const TempFolder folder;
  Messages messages;
  run_ranks(3, [&](const std::shared_ptr<Group>& group) {
    const Watchdog watchdog(group, {.patience = std::chrono::hours(1),
                                    .end_after = std::chrono::hours(2),
                                    .folder = folder.path(),
                                    .tell = [&](const std::string& text) { messages.add(text); },
                                    .end = [&](const std::string& text) { messages.add(text); }});
    for (int i = 0; i < 100; ++i) group->barrier();
  });
  EXPECT_THAT(messages.all(), IsEmpty());
}

TEST(Watchdog, EndsTheRunWhereThatIsAskedFor) {
  const TempFolder folder;
  Messages ends;
  run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    const Watchdog watchdog(group, {.patience = milliseconds(100),
                                    .end_after = milliseconds(400),
                                    .folder = folder / "ranks",
                                    .tell = [](const std::string&) {},
                                    .end = [&](const std::string& text) { ends.add(text); }});
    if (group->rank() == 0) {
      EXPECT_TRUE(ends.wait_for("The run ends"));
    }
    group->barrier();
  });
  ASSERT_EQ(ends.all().size(), 1u);
  EXPECT_THAT(ends.all().front(), AllOf(HasSubstr("rank 0 (host "), HasSubstr("Rank 1 waits, for ")));
}

TEST(Watchdog, TakesRankZerosFolderAndMakesOneWhereNoneIsNamed) {
  std::filesystem::path made;
  run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    const TempFolder other;
    const Watchdog watchdog(
        group, {.folder = group->rank() == 0 ? std::filesystem::path() : other.path() / "not this one"});
    const std::filesystem::path own = watchdog.folder() / fmt::format("rank-{}", group->rank());
    EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(own); })) << own;
    group->barrier();
    EXPECT_TRUE(std::filesystem::is_empty(other.path()));
    if (group->rank() == 0) made = watchdog.folder();
    group->barrier();
  });
  EXPECT_THAT(made.string(), HasSubstr("isochron-ranks-"));
  EXPECT_FALSE(std::filesystem::exists(made));
}

TEST(Watchdog, HasNothingToDoForOneProcess) {
  const Watchdog watchdog(std::make_shared<Group>(), {});
  EXPECT_TRUE(watchdog.folder().empty());
}

TEST(Watchdog, RefusesNoPatience) {
  EXPECT_ERROR(Watchdog(std::make_shared<Group>(), {.patience = milliseconds(0)}),
               ErrorCode::kInvalidArgument, "patience must be above 0");
}

/// What a folder has seen of rank 1 of two ranks, after it has looked.
SeenRank seen_of_other(StatusFolder& folder, uint64_t run) {
  RankStatus own{.run = run, .rank = 0};
  const std::filesystem::path file = folder.path() / "rank-0";
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  folder.exchange(own, true, 7);
  // The folder writes its own file before it reads the others.
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(file) && folder.unanswered_ns(8) == 0; }));
  return folder.seen()[1];
}

TEST(StatusFolder, TakesNothingFromDamagedAndForeignFiles) {
  const TempFolder temporary;
  constexpr uint64_t kRun = 5;
  StatusFolder folder(temporary / "ranks", kRun, 0, 2);
  EXPECT_FALSE(seen_of_other(folder, kRun).present);
  const std::filesystem::path other = temporary.path() / "ranks" / "rank-1";
  const RankStatus status{.run = kRun, .rank = 1, .host = "b", .beat = 3};
  RankStatus other_run = status, other_rank = status;
  other_run.run = 6;
  other_rank.rank = 0;
  const std::string whole = status_text(status);
  for (const std::string& text : {std::string(), whole.substr(0, 100), std::string(10'000, 'x'),
                                  status_text(other_run), status_text(other_rank)}) {
    write_quickly(other, text);
    const SeenRank seen = seen_of_other(folder, kRun);
    EXPECT_TRUE(seen.present);
    EXPECT_FALSE(seen.status.has_value()) << text;
  }
  write_quickly(other, whole);
  const SeenRank seen = seen_of_other(folder, kRun);
  ASSERT_TRUE(seen.status.has_value());
  EXPECT_EQ(seen.status->host, "b");
  EXPECT_EQ(seen.changed_ns, 7);
  write_quickly(other, whole.substr(0, 100));
  EXPECT_TRUE(seen_of_other(folder, kRun).status.has_value()) << "half written: what was read before";
  std::filesystem::remove(other);
  std::filesystem::create_directory(other);
  EXPECT_TRUE(seen_of_other(folder, kRun).status.has_value());
}

TEST(StatusFolder, ClearsWhatRunsBeforeHaveLeftAndNothingElse) {
  const TempFolder folder;
  for (const char* name : {"rank-0", "rank-12", "rank-", "rank-1x", "cp-0001.safetensors"})
    write_quickly(folder / name, "text");
  StatusFolder::clear(folder.path());
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left.push_back(entry.path().filename().string());
  EXPECT_THAT(left, testing::UnorderedElementsAre("rank-", "rank-1x", "cp-0001.safetensors"));
}

TEST(StatusFolder, RemovesFoldersOfRunsThatAreLongDead) {
  const TempFolder folder;
  const auto make = [&](const char* name, int folder_hours, int file_hours) {
    const auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::create_directory(folder / name);
    write_quickly(folder.path() / name / "rank-0", "text");
    std::filesystem::last_write_time(folder.path() / name / "rank-0", now - std::chrono::hours(file_hours));
    std::filesystem::last_write_time(folder / name, now - std::chrono::hours(folder_hours));
  };
  make("ranks-dead", 25, 25);
  make("ranks-alive", 25, 0);
  make("ranks-new", 0, 25);
  make("other", 25, 25);
  StatusFolder::remove_old(folder.path(), "ranks-");
  EXPECT_FALSE(std::filesystem::exists(folder / "ranks-dead"));
  for (const char* name : {"ranks-alive", "ranks-new", "other"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() / name / "rank-0")) << name;
}

TEST(Watchdog, CostsStepsNoAllocation) {
  if (!allocations_counted()) GTEST_SKIP() << "allocations are not counted under sanitizers";
  const TempFolder folder;
  std::atomic<int64_t> before = 0, after = 0;
  run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    const Watchdog watchdog(group, {.patience = milliseconds(80), .folder = folder / "ranks"});
    std::vector<double> numbers(100);
    for (int pass = 0; pass < 3; ++pass) {
      if (group->rank() == 0 && pass == 1) before = heap_allocations();
      if (group->rank() == 0 && pass == 2) after = heap_allocations();
      for (int step = 1; step <= 1000; ++step) {
        group->activity().set_step(1, step);
        const Doing doing(&group->activity(), "reading data");
        group->sum(numbers);
      }
    }
  });
  EXPECT_GT(before, 0);
  EXPECT_EQ(after, before) << "the watchdog's own are background work";
}

}  // namespace
}  // namespace isochron::comm
