#include "isochron/comm/transport/adaptors.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>

#include "comm/support/collective_checks.h"
#include "isochron/apps/allocation_counter.h"
#include "isochron/comm/transport/thread_communicator.h"
#include "support/expect_error.h"

namespace isochron::comm {
namespace {

using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;

/// Runs `body` once per rank, on the result of `wrap` for that rank's communicator.
template <typename Wrap, typename Body>
void run_wrapped(int ranks, const Wrap& wrap, const Body& body) {
  auto members = make_thread_group(ranks);
  run_thread_group(ranks, [&](Communicator& beside) {
    auto wrapped = wrap(std::move(members[static_cast<size_t>(beside.rank())]));
    body(*wrapped);
  });
}

TEST(Adaptors, PassAllCollectivesThrough) {
  std::atomic<int> done = 0;
  std::array<CallRecord, 3> records;
  run_wrapped(
      3,
      [&](std::unique_ptr<Communicator> member) {
        CallRecord& record = records[static_cast<size_t>(member->rank())];
        auto slow = std::make_unique<SlowLink>(std::move(member), SlowLink::Options{nanoseconds(1), 1e12});
        auto failing = std::make_unique<FailingCommunicator>(std::move(slow), 1'000'000);
        return std::make_unique<RecordingCommunicator>(std::move(failing), record);
      },
      [&](Communicator& comm) {
        EXPECT_EQ(comm.size(), 3);
        EXPECT_EQ(comm.description(), "3 threads of one process");
        check_collectives(comm, 3000);
        ++done;
      });
  EXPECT_EQ(done, 3);
  EXPECT_GT(records[0].count(), 100);
}

TEST(Adaptors, PassAbortThrough) {
  auto group = make_thread_group(2);
  SlowLink link(std::move(group[1]), {});
  EXPECT_ERROR(link.abort(4), ErrorCode::kCommunication, "rank 1 aborted with exit status 4");
  EXPECT_ERROR(group[0]->barrier(), ErrorCode::kCommunication, "rank 1 aborted with exit status 4");
}

TEST(TrafficOfACall, IsWhatARankSendsAndReceivesDirectly) {
  const auto bytes = [](const Call& call, int rank, int size) {
    const Traffic traffic = traffic_of(call, rank, size);
    return std::array<int64_t, 4>{traffic.messages_sent, traffic.messages_received, traffic.bytes_sent,
                                  traffic.bytes_received};
  };
  const Slices uneven = Slices::of(100, 4, 32);  // 32, 32, 32, 4
  EXPECT_THAT(bytes(Call::all_to_all(uneven), 0, 4), ElementsAre(3, 3, 68, 96));
  EXPECT_THAT(bytes(Call::all_to_all(uneven), 3, 4), ElementsAre(3, 3, 96, 12));
  EXPECT_THAT(bytes(Call::all_gather(uneven), 0, 4), ElementsAre(3, 3, 96, 68));
  EXPECT_THAT(bytes(Call::all_gather(uneven), 3, 4), ElementsAre(3, 3, 12, 96));
  const Slices one = Slices::of(5, 4, 64);  // 5, and three that are empty
  EXPECT_THAT(bytes(Call::all_to_all(one), 0, 4), ElementsAre(0, 3, 0, 15));
  EXPECT_THAT(bytes(Call::all_gather(one), 2, 4), ElementsAre(0, 1, 0, 5));
  EXPECT_THAT(bytes(Call::all_reduce(8, DType::kF32), 1, 2), ElementsAre(2, 2, 32, 32));
  EXPECT_THAT(bytes(Call::broadcast(10, 1), 1, 3), ElementsAre(2, 0, 20, 0));
  EXPECT_THAT(bytes(Call::broadcast(10, 1), 0, 3), ElementsAre(0, 1, 0, 10));
  EXPECT_THAT(bytes(Call::barrier(), 0, 3), ElementsAre(2, 2, 0, 0));
  for (const Call& call : {Call::all_to_all({9, 9}), Call::all_gather({9, 9}),
                           Call::all_reduce(9, DType::kI64), Call::broadcast(9, 0), Call::barrier()}) {
    EXPECT_THAT(bytes(call, 0, 1), ElementsAre(0, 0, 0, 0)) << call.text();
  }
}

TEST(SlowLinks, TakeTheTimeOfTheirTraffic) {
  auto group = make_thread_group(2);
  const SlowLink link(std::move(group[0]), {nanoseconds(500), 1e6});
  EXPECT_EQ(link.least_duration(Call::all_gather({1000, 500})), nanoseconds(500 + 500'000));
  EXPECT_EQ(link.least_duration(Call::all_to_all({700, 500})), nanoseconds(500 + 500'000));  // receives more
  EXPECT_EQ(link.least_duration(Call::all_reduce(250, DType::kF32)), nanoseconds(1000 + 1'000'000));
  EXPECT_EQ(link.least_duration(Call::barrier()), nanoseconds(500));
  const SlowLink alone(std::move(make_thread_group(1)[0]), {nanoseconds(500), 1e6});
  EXPECT_EQ(alone.least_duration(Call::all_gather({1000, 1000})), nanoseconds(0));
}

TEST(SlowLinks, DelayCallsByAtLeastThat) {
  std::atomic<int> slow_enough = 0;
  run_wrapped(
      2,
      [](std::unique_ptr<Communicator> member) {
        return std::make_unique<SlowLink>(std::move(member), SlowLink::Options{nanoseconds(0), 1e6});
      },
      [&](SlowLink& link) {
        std::array<std::byte, 4000> data{};
        const auto begin = std::chrono::steady_clock::now();
        link.all_gather(data.data(), {4000, 2000});
        const auto lasted = std::chrono::steady_clock::now() - begin;
        slow_enough += lasted >= std::chrono::milliseconds(2);
      });
  EXPECT_EQ(slow_enough, 2);
}

TEST(SlowLinks, RejectWrongOptions) {
  const auto link = [](int64_t latency, double rate) {
    return SlowLink(std::move(make_thread_group(1)[0]), {nanoseconds(latency), rate});
  };
  EXPECT_ERROR(link(-1, 1), ErrorCode::kInvalidArgument, "a latency of -1 ns");
  EXPECT_ERROR(link(0, 0), ErrorCode::kInvalidArgument, "0 bytes per second");
}

class FailingCalls : public testing::TestWithParam<int> {};

TEST_P(FailingCalls, EndAllRanksAtThatCall) {
  std::array<std::atomic<int>, 3> completed{};
  std::array<std::string, 3> errors;
  run_wrapped(
      3,
      [](std::unique_ptr<Communicator> member) {
        const int failing = member->rank() == 1 ? GetParam() : 100;
        return std::make_unique<FailingCommunicator>(std::move(member), failing);
      },
      [&](FailingCommunicator& comm) {
        const auto rank = static_cast<size_t>(comm.rank());
        std::array<std::byte, 48> data{}, received{};
        const std::array<std::function<void()>, 5> calls = {
            [&] {
              comm.all_to_all(data.data(), received.data(), {48, 16});
            },
            [&] {
              comm.all_gather(data.data(), {48, 16});
            },
            [&] { comm.all_reduce(data.data(), 6, DType::kI64); }, [&] { comm.broadcast(data, 2); },
            [&] { comm.barrier(); }};
        try {
          for (const auto& call : calls) {
            call();
            ++completed[rank];
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kCommunication);
          EXPECT_EQ(comm.failed(), rank == 1);
          errors[rank] = error.what();
        }
        if (rank == 1) EXPECT_ERROR(comm.barrier(), ErrorCode::kCommunication, "fails as planned");
      });
  for (const auto& count : completed) EXPECT_EQ(count, GetParam() - 1);
  EXPECT_THAT(errors, ElementsAre(HasSubstr("rank 1 has left"), HasSubstr("fails as planned"),
                                  HasSubstr("rank 1 has left")));
}

INSTANTIATE_TEST_SUITE_P(Nth, FailingCalls, testing::Values(1, 2, 3, 4, 5));

TEST(Recording, KeepsTheFirstCallsAndCountsAll) {
  CallRecord record(2);
  RecordingCommunicator comm(std::move(make_thread_group(1)[0]), record);
  std::array<std::byte, 64> data{};
  comm.all_gather(data.data(), {64, 64});
  comm.broadcast(data, 0);
  comm.barrier();
  comm.barrier();
  EXPECT_THAT(record.calls(), ElementsAre(Call::all_gather({64, 64}), Call::broadcast(64, 0)));
  EXPECT_EQ(record.count(), 4);
  EXPECT_EQ(record.count(CallKind::kBarrier), 2);
  EXPECT_EQ(record.count(CallKind::kAllToAll), 0);
  record.clear();
  EXPECT_EQ(record.count(), 0);
  EXPECT_THAT(record.calls(), ElementsAre());
}

TEST(Recording, AddsTheTrafficOfTheRankUp) {
  std::array<CallRecord, 2> records;
  run_wrapped(
      2,
      [&](std::unique_ptr<Communicator> member) {
        CallRecord& record = records[static_cast<size_t>(member->rank())];
        return std::make_unique<RecordingCommunicator>(std::move(member), record);
      },
      [&](Communicator& comm) {
        std::array<std::byte, 64> data{};
        std::array<std::byte, 80> received{};
        comm.all_to_all(data.data(), received.data(), {64, 40});
        comm.all_gather(data.data(), {64, 40});
        comm.broadcast(data, 1);
      });
  EXPECT_EQ(records[0].traffic().bytes_sent, 24 + 40);
  EXPECT_EQ(records[0].traffic().bytes_received, 40 + 24 + 64);
  EXPECT_EQ(records[1].traffic().messages_sent, 3);
  EXPECT_EQ(records[1].traffic().messages_received, 2);
}

TEST(Recording, LeavesOutCallsThatFail) {
  CallRecord record;
  auto failing = std::make_unique<FailingCommunicator>(std::move(make_thread_group(1)[0]), 2);
  RecordingCommunicator comm(std::move(failing), record);
  comm.barrier();
  EXPECT_ERROR(comm.barrier(), ErrorCode::kCommunication, "call 2 fails as planned (barrier)");
  EXPECT_EQ(record.count(), 1);
}

TEST(Recording, AllocatesNothingInItsCalls) {
  if (!allocations_counted()) GTEST_SKIP() << "allocations are not counted under sanitizers";
  CallRecord record(3);
  RecordingCommunicator comm(std::move(make_thread_group(1)[0]), record);
  std::array<std::byte, 64> data{};
  const int64_t before = heap_allocations();
  for (int i = 0; i < 10; ++i) comm.all_gather(data.data(), {64, 64});
  EXPECT_EQ(heap_allocations(), before);
  EXPECT_EQ(record.count(), 10);
}

}  // namespace
}  // namespace isochron::comm
