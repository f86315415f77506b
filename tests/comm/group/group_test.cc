// The queue of a group: collectives that are started, waited for, left and abandoned.
#include "isochron/comm/group/group.h"

#include <gmock/gmock.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/expect_error.h"
#include "support/rank_threads.h"

namespace isochron::comm {
namespace {

using Members = std::shared_ptr<Group>;

/// Counts how often it ran, together with all ranks.
class Meeting final : public Collective {
 public:
  int runs = 0;

 protected:
  size_t run(Communicator& communicator) override {
    communicator.barrier();
    ++runs;
    return 0;
  }
};

/// Until no more than `awake` threads of this process run.
void wait_until_others_sleep(int awake) {
  for (int running = awake + 1; running > awake;) {
    running = 0;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string status;
      std::getline(std::ifstream(thread.path() / "stat"), status);
      running += status.find(") R ") != std::string::npos;
    }
  }
}

TEST(Group, MoreCanBeStartedThanItsQueueHoldsAlsoForWhoeverWaits) {
  run_ranks(2, [](const Members& group) {
    wait_until_others_sleep(2);  // a group thread that still looks for work needs no wake-up
    std::deque<Meeting> meetings(300);
    for (Meeting& meeting : meetings) group->start_when_waited_for(meeting);
    for (Meeting& meeting : meetings) group->wait(meeting);
    for (const Meeting& meeting : meetings) EXPECT_EQ(meeting.runs, 1);
  });
}

TEST(Group, RanksThatMakeDifferentCallsAreNamed) {
  run_ranks(3, [](const Members& group) {
    group->barrier("begin");
    std::vector<std::byte> own(8), all(24);
    const auto call = [&] {
      if (group->rank() == 2) return group->barrier("a barrier");
      group->gather(own, all, "numbers");
    };
    EXPECT_ERROR(
        call(), ErrorCode::kCommunication,
        "the ranks make different calls: call 2 is numbers of 24 bytes on rank 0, but a barrier on rank 2");
    EXPECT_ERROR(group->barrier(), ErrorCode::kCommunication, "different calls");  // no further one is made
  });
}

TEST(Group, WhatWasStartedIsDoneBeforeItIsLeft) {
  run_ranks(2, [](const Members& group) {
    Meeting meeting;
    group->start_when_waited_for(meeting);
    group->leave();
    EXPECT_EQ(meeting.runs, 1);
  });
}

TEST(Group, AbandonedCollectivesAreNotRunAndLaterCallsSaySo) {
  run_ranks(2, [](const Members& group) {
    Meeting first, second;
    group->start_when_waited_for(first);
    group->start_when_waited_for(second);
    group->abandon(first);
    group->abandon(second);
    EXPECT_EQ(first.runs + second.runs, 0);
    const char* const told = "in the middle of its exchange";
    EXPECT_ERROR(group->wait(first), ErrorCode::kCommunication, told);
    EXPECT_ERROR(group->start(second), ErrorCode::kCommunication, told);
    EXPECT_ERROR(group->barrier(), ErrorCode::kCommunication, told);
  });
}

}  // namespace
}  // namespace isochron::comm
