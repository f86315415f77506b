#include "isochron/comm/watch/wait_report.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

namespace isochron::comm {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kStill = 30;

/// Four ranks: all have entered collective 17, and none has finished it.
class Waiting : public testing::Test {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < 4; ++rank) {
      ranks_.push_back({.status = RankStatus{.rank = rank,
                                             .host = std::string(1, static_cast<char>('a' + rank)),
                                             .process = 4710 + rank,
                                             .entered = 17,
                                             .finished = 16,
                                             .waited_s = 60,
                                             .label = "sums of gradients",
                                             .bytes = 1'050'000,
                                             .doing = "computing",
                                             .epoch = 3,
                                             .step = 812}});
    }
  }
  RankStatus& status(size_t rank) { return *ranks_[rank].status; }
  /// Like a rank that computes and hasn't entered collective 17 yet.
  void leave_out(size_t rank) {
    status(rank).entered = 16;
    status(rank).doing_s = 63;
  }
  WaitView view(size_t rank = 0, double unanswered_s = 0) {
    own_ = status(rank);
    return {.own = own_, .ranks = ranks_, .still_s = kStill, .unanswered_s = unanswered_s, .folder = folder_};
  }

  std::vector<RankView> ranks_;
  RankStatus own_;
  std::string folder_ = "/shared/ranks";
};

TEST_F(Waiting, TheOneThatStandsStillIsNamed) {
  leave_out(1);
  ranks_[1].unchanged_s = 63;
  EXPECT_EQ(wait_text(view()),
            "rank 1 (host b, process 4711) has not entered collective 17 of step 812 of epoch 3 (sums of "
            "gradients, 1.05 "
            "MB); it was last seen 63 s ago, computing step 812 of epoch 3. Ranks 0, 2 and 3 wait, for 60 s "
            "so far.");
}

TEST_F(Waiting, WhatOneDoesThatIsAliveIsTold) {
  leave_out(1);
  EXPECT_THAT(wait_text(view()), HasSubstr("; it has been computing step 812 of epoch 3 for 63 s. "));
  status(1).doing = "saving a checkpoint";
  EXPECT_THAT(wait_text(view()),
              HasSubstr("; it has been saving a checkpoint for 63 s, at step 812 of epoch 3. "));
  status(1).step = 0;
  EXPECT_THAT(wait_text(view()), HasSubstr("; it has been saving a checkpoint for 63 s. "));
}

TEST_F(Waiting, OneThatStandsStillWithinACollectiveIsNamed) {
  ranks_[3].unchanged_s = 50;
  EXPECT_THAT(wait_text(view()),
              HasSubstr("rank 3 (host d, process 4713) has entered collective 17 of step 812 of epoch 3 "
                        "(sums of gradients, "
                        "1.05 MB); it was last seen 50 s ago, in it. Ranks 0, 1 and 2 wait"));
}

TEST_F(Waiting, SeveralHaveASentenceEach) {
  for (const size_t rank : {1, 2}) leave_out(rank);
  EXPECT_THAT(wait_text(view()), HasSubstr(". Rank 2 (host c, process 4712) has not entered it either; "));
  EXPECT_THAT(wait_text(view()), HasSubstr(". Ranks 0 and 3 wait, "));
}

TEST_F(Waiting, OfThoseWithoutAFileNothingIsClaimed) {
  ranks_[1].status.reset();
  ranks_[2].status.reset();
  EXPECT_EQ(wait_text(view()),
            "ranks 1 and 2 have no status in /shared/ranks as seen from host a: each of them has ended, or "
            "its machine does not share this folder. Ranks 0 and 3 wait in collective 17 of step 812 of "
            "epoch 3 (sums of gradients, 1.05 MB), for 60 s so far.");
  ranks_[1].status = status(3);
  ranks_[1].present = false;
  EXPECT_THAT(wait_text(view()), HasSubstr("rank 1 has left the run. Rank 2 has no status in"));
}

TEST_F(Waiting, NobodyIsBlamedWhereAllHaveEntered) {
  EXPECT_THAT(wait_text(view()), HasSubstr("ranks 0, 1, 2 and 3 wait in collective 17"));
  EXPECT_THAT(wait_text(view()),
              HasSubstr("All ranks have entered it, but no data arrives; check the network between them."));
  status(2).entered = 16;
  status(2).finished = 15;
  status(2).label = "results";
  const std::string apart =
      "Rank 2 waits in collective 16 of step 812 of epoch 3 (results, 1.05 MB): the ranks don't make the "
      "same "
      "calls in the same order.";
  EXPECT_THAT(wait_text(view()), HasSubstr("ranks 0, 1 and 3 wait in collective 17"));
  EXPECT_THAT(wait_text(view()), HasSubstr(apart));
  status(2).entered = 17;
  status(2).finished = 16;
  EXPECT_THAT(wait_text(view()),
              HasSubstr("Rank 2 waits in collective 17 of step 812 of epoch 3 (results, "));
}

TEST_F(Waiting, AFolderThatHangsIsNamed) {
  EXPECT_EQ(wait_text(view(1, 58)),
            "rank 1 (host b, process 4711) waits in collective 17 of step 812 of epoch 3 (sums of gradients, "
            "1.05 MB), for 60 s so far. The state of the other ranks is unknown: /shared/ranks has not "
            "answered for 58 s.");
}

TEST_F(Waiting, TheLowestThatWaitsTells) {
  EXPECT_FALSE(lower_rank_tells(view(0)));
  EXPECT_TRUE(lower_rank_tells(view(1)));
  leave_out(0);
  EXPECT_FALSE(lower_rank_tells(view(1)));
  status(0).entered = 17;
  ranks_[0].unchanged_s = kStill;
  EXPECT_FALSE(lower_rank_tells(view(1))) << "it stands still, and will tell nothing";
  EXPECT_TRUE(lower_rank_tells(view(2)));
  status(0).doing = kEndingTheRun;
  EXPECT_TRUE(lower_rank_tells(view(1))) << "it has told already";
  ranks_[0].status.reset();
  EXPECT_FALSE(lower_rank_tells(view(1)));
}

TEST(WaitReport, AFullDeviceBehindStandardErrorEndsNothing) {
  const int before = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0),
            full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(before, 0);
  ASSERT_GE(full, 0);
  ::dup2(full, STDERR_FILENO);
  EXPECT_NO_THROW(print_message("rank 0 waits"));
  ::dup2(before, STDERR_FILENO);
  std::clearerr(stderr);
  ::close(full);
  ::close(before);
}

TEST(WaitReport, SizesTimesAndListsAreShort) {
  EXPECT_EQ(size_text(96), "96 B");
  EXPECT_EQ(size_text(2'000), "2 KB");
  EXPECT_EQ(size_text(1'048'576), "1.05 MB");
  EXPECT_EQ(size_text(999'600), "1 MB");
  EXPECT_EQ(seconds_text(0.94), "0.9 s");
  EXPECT_EQ(seconds_text(9.96), "10 s");
  const std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(list_text(std::span(ranks).first(1)), "rank 0");
  EXPECT_EQ(list_text(std::span(ranks).first(2)), "ranks 0 and 1");
  EXPECT_EQ(list_text(ranks), "ranks 0, 1, 2, 3 and 5 others");
}

}  // namespace
}  // namespace isochron::comm
