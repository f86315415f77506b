#include "isochron/comm/transport/thread_communicator.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <thread>

#include "comm/support/collective_checks.h"
#include "isochron/apps/allocation_counter.h"
#include "isochron/core/base/error.h"
#include "support/expect_error.h"

namespace isochron::comm {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr Slices kSlices{64, 32};  // for 2 ranks

class ThreadGroup : public testing::TestWithParam<int> {};

TEST_P(ThreadGroup, DoesAllCollectives) {
  std::atomic<int> done = 0;
  run_thread_group(GetParam(), [&](Communicator& comm) {
    EXPECT_EQ(comm.size(), GetParam());
    check_collectives(comm, 100'003);
    ++done;
  });
  EXPECT_EQ(done, GetParam());
}

TEST_P(ThreadGroup, NobodyPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> come = 0;
  run_thread_group(GetParam(), [&](Communicator& comm) {
    for (int round = 1; round <= 50; ++round) {
      ++come;
      comm.barrier();
      EXPECT_GE(come, round * comm.size());
    }
  });
  EXPECT_EQ(come, 50 * GetParam());
}

TEST_P(ThreadGroup, AddsInTheOrderOfRanks) {
  const int ranks = GetParam();
  constexpr std::array<float, 7> kAddends = {1e8f, 1.0f, -1e8f, 3.0f, 0.1f, -7e7f, 0.3f};
  float expected = kAddends[0];
  for (int rank = 1; rank < ranks; ++rank) expected += kAddends[static_cast<size_t>(rank)];
  run_thread_group(ranks, [&](Communicator& comm) {
    std::array<float, 5> data;
    data.fill(kAddends[static_cast<size_t>(comm.rank())]);
    comm.all_reduce(reinterpret_cast<std::byte*>(data.data()), 5, DType::kF32);
    EXPECT_THAT(data, Each(expected));
  });
}

TEST_P(ThreadGroup, AllocatesNothingInItsCalls) {
  if (!allocations_counted()) GTEST_SKIP() << "allocations are not counted under sanitizers";
  std::atomic<int64_t> before = 0, after = 0;
  run_thread_group(GetParam(), [&](Communicator& comm) {
    const Slices slices = Slices::of(4000, comm.size(), 8);
    std::vector<std::byte> data(4000);
    std::vector<std::byte> received(static_cast<size_t>(comm.size()) * slices.slice_bytes);
    for (int pass = 0; pass < 3; ++pass) {
      comm.barrier();
      if (comm.rank() == 0 && pass == 1) before = heap_allocations();
      if (comm.rank() == 0 && pass == 2) after = heap_allocations();
      comm.barrier();
      comm.all_to_all(data.data(), received.data(), slices);
      comm.all_gather(data.data(), slices);
      comm.all_reduce(data.data(), 500, DType::kF64);
      comm.broadcast(data, 0);
    }
  });
  EXPECT_GT(before, 0);
  EXPECT_EQ(after, before);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadGroup, testing::Values(1, 2, 3, 4, 7));

/// The error message of each rank when each rank calls its function from `calls`.
std::vector<std::string> errors_of(const std::vector<std::function<void(Communicator&)>>& calls) {
  auto members = make_thread_group(static_cast<int>(calls.size()));
  std::vector<std::string> errors(calls.size());
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          calls[rank](*members[rank]);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kCommunication);
          errors[rank] = error.what();
        }
        members[rank].reset();
      });
    }
  }
  return errors;
}

void gather(Communicator& comm) {
  std::array<std::byte, 64> data{};
  comm.all_gather(data.data(), kSlices);
}

TEST(ThreadGroupLinks, TellWhoseMessagesTakeLonger) {
  constexpr int kRanks = 3;
  static constexpr std::chrono::milliseconds kSlow(4), kFast(1);
  auto members = make_thread_group(
      kRanks, [](int from, int to, size_t) { return from == 1 || to == 1 ? kSlow : kFast; });
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&own = *members[static_cast<size_t>(rank)], rank] {
      std::vector<std::byte> bytes(kRanks);
      own.all_gather(bytes.data(), Slices::of(kRanks, kRanks, 1));
      const Arrivals arrivals = own.arrivals();
      EXPECT_EQ(arrivals.calls, 1);
      for (int from = 0; from < kRanks; ++from) {
        const std::chrono::nanoseconds arrived(arrivals.total_ns.at(static_cast<size_t>(from)));
        if (from == rank) {
          EXPECT_EQ(arrived.count(), 0);
        } else {
          EXPECT_GE(arrived, rank == 1 || from == 1 ? kSlow : kFast);
        }
      }
    });
  }
}

TEST(ThreadGroupErrors, NameBothCallsThatDiffer) {
  const auto errors = errors_of({gather, [](Communicator& comm) {
                                   std::array<std::byte, 64> data{};
                                   comm.broadcast(data, 0);
                                 }});
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("rank 0 all_gather of 64 bytes in slices of 32"),
                                 HasSubstr("rank 1 broadcast of 64 bytes from rank 0"),
                                 HasSubstr("same calls in the same order"))));
}

TEST(ThreadGroupErrors, NameSizesDtypesAndRootsThatDiffer) {
  const auto differing = [](auto first, auto second) { return errors_of({first, second}); };
  const auto reduce = [](int64_t count, DType dtype) {
    return [=](Communicator& comm) {
      std::array<std::byte, 64> data{};
      comm.all_reduce(data.data(), count, dtype);
    };
  };
  const auto broadcast = [](int root) {
    return [=](Communicator& comm) {
      std::array<std::byte, 64> data{};
      comm.broadcast(data, root);
    };
  };
  EXPECT_THAT(differing(reduce(8, DType::kF64), reduce(7, DType::kF64)),
              Each(HasSubstr("rank 0 all_reduce of 8 f64, rank 1 all_reduce of 7 f64")));
  EXPECT_THAT(differing(reduce(8, DType::kF64), reduce(8, DType::kI64)),
              Each(HasSubstr("rank 0 all_reduce of 8 f64, rank 1 all_reduce of 8 i64")));
  EXPECT_THAT(differing(broadcast(0), broadcast(1)), Each(HasSubstr("from rank 0, rank 1 broadcast")));
  EXPECT_THAT(differing([](Communicator& comm) { comm.barrier(); }, gather),
              Each(HasSubstr("rank 0 barrier, rank 1 all_gather")));
}

TEST(ThreadGroupErrors, EndTheCallsOfOthersWhereARankLeaves) {
  const auto errors = errors_of({gather, gather, [](Communicator&) {}});
  EXPECT_EQ(errors[2], "");
  for (const int rank : {0, 1}) {
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                AllOf(HasSubstr("all_gather of 64 bytes in slices of 32 can't be completed"),
                      HasSubstr("rank 2 has left the group")));
  }
}

TEST(ThreadGroupErrors, EndTheCallsOfOthersWhereARankAborts) {
  const auto errors =
      errors_of({[](Communicator& comm) { comm.barrier(); }, [](Communicator& comm) { comm.abort(3); },
                 [](Communicator& comm) { comm.barrier(); }});
  EXPECT_THAT(errors, Each(HasSubstr("rank 1 aborted with exit status 3")));
}

TEST(ThreadGroupErrors, EndTheCallsOfOthersWhereARankThrowsAndAreNotTold) {
  std::atomic<int> ended = 0;
  try {
    run_thread_group(4, [&](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == 2) throw std::runtime_error("a fault of rank 2");
      try {
        comm.barrier();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 2 has left the group"));
        ++ended;
        throw;
      }
    });
    ADD_FAILURE() << "expected an exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "a fault of rank 2");
  }
  EXPECT_EQ(ended, 3);
}

TEST(ThreadGroupErrors, RejectWrongArguments) {
  EXPECT_ERROR(make_thread_group(0), ErrorCode::kInvalidArgument, "a group of 0 ranks");
  const auto group = make_thread_group(1);
  std::array<std::byte, 64> data{};
  EXPECT_ERROR(group[0]->broadcast(data, 1), ErrorCode::kInvalidArgument,
               "the root must be one of its ranks");
  EXPECT_ERROR(group[0]->broadcast(data, -1), ErrorCode::kInvalidArgument,
               "the root must be one of its ranks");
  EXPECT_ERROR(group[0]->all_reduce(data.data(), 1, DType::kF16), ErrorCode::kInvalidArgument,
               "all_reduce adds f32, f64 or i64, not f16");
  EXPECT_ERROR(group[0]->all_reduce(data.data(), -1, DType::kF32), ErrorCode::kInvalidArgument,
               "all_reduce of -1 elements");
  EXPECT_ERROR(group[0]->all_gather(data.data(), {64, 63}), ErrorCode::kInvalidArgument,
               "1 slices of 63 bytes don't hold 64 bytes");
}

TEST(ThreadGroupMember, SaysWhatItIs) {
  EXPECT_EQ(make_thread_group(3)[1]->description(), "3 threads of one process");
  EXPECT_EQ(make_thread_group(3)[1]->rank(), 1);
}

}  // namespace
}  // namespace isochron::comm
