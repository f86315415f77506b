// One test suite for every allocator and adaptor, alone and stacked.
#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/adaptors.h"
#include "isochron/memory/allocators/arena.h"
#include "isochron/memory/allocators/naive.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/memory/cuda/device_allocators.h"
#include "support/simulated/simulated_driver.h"

// Requests that no machine can meet must come back as null here too.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace isochron {
namespace {

constexpr size_t kArenaBytes = size_t{64} << 20;

/// Allocators built on each other; the last one is under test.
class Stack {
 public:
  template <typename A, typename... Args>
  Stack& add(Args&&... args) {
    if constexpr (std::is_base_of_v<AllocatorAdaptor, A>) {
      layers_.push_back(std::make_unique<A>(*layers_.back(), std::forward<Args>(args)...));
    } else {
      layers_.push_back(std::make_unique<A>(std::forward<Args>(args)...));
    }
    return *this;
  }
  Stack& log() { return add<LoggingAllocator>(log_); }
  Allocator& top() { return *layers_.back(); }
  explicit Stack(const std::function<void(Stack&)>& build) { build(*this); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() {
    while (!layers_.empty()) layers_.pop_back();
  }

 private:
  std::ostringstream log_;
  std::vector<std::unique_ptr<Allocator>> layers_;
};

struct Case {
  const char* name;
  std::function<void(Stack&)> build;
  Counter in_use = Counter::kBytesInUse;
};

/// Addresses of the simulated device are the host's.
std::shared_ptr<cuda::SimulatedContext> device() {
  static const auto context =
      std::make_shared<cuda::SimulatedContext>(cuda::simulated_device(size_t{256} << 20));
  return context;
}
cuda::Stream device_stream() {
  static const cuda::Stream stream = device()->create_stream(false);
  return stream;
}

class Conformance : public testing::TestWithParam<Case> {
 protected:
  Stack stack_{GetParam().build};
  Allocator& allocator_ = stack_.top();
};

struct Held {
  unsigned char* data;
  size_t bytes;
  unsigned char fill;
};

Held take(Allocator& allocator, size_t bytes, unsigned char fill) {
  Held held{static_cast<unsigned char*>(allocator.allocate(bytes, "held")), bytes, fill};
  std::memset(held.data, fill, bytes);
  return held;
}

void give(Allocator& allocator, const Held& held) {
  for (size_t i = 0; i < held.bytes; ++i)
    ASSERT_EQ(held.data[i], held.fill) << "at " << i << " of " << held.bytes;
  allocator.deallocate(held.data, held.bytes);
}

TEST_P(Conformance, EveryAddressIsAlignedAndNotNull) {
  std::vector<Held> held;
  for (size_t bytes : {0, 1, 63, 64, 65, 1000, 4096, 16320, 16384, 100000, 1 << 20}) {
    held.push_back(take(allocator_, bytes, 7));
    ASSERT_NE(held.back().data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(held.back().data) % kCpuAlignment, 0u) << bytes;
  }
  for (const Held& h : held) give(allocator_, h);
}

TEST_P(Conformance, ZeroByteRequestsAreDistinct) {
  const Held a = take(allocator_, 0, 0), b = take(allocator_, 0, 0);
  EXPECT_NE(a.data, b.data);
  give(allocator_, a);
  give(allocator_, b);
}

TEST_P(Conformance, BlocksNeverOverlapUnderRandomTraffic) {
  Rng rng(42);
  std::vector<Held> held;
  size_t served = 0;
  while (served < kArenaBytes / 8) {
    const uint64_t draw = rng.next_u64();
    if (held.size() > 200 || (!held.empty() && draw % 3 == 0)) {
      const size_t victim = draw / 8 % held.size();
      give(allocator_, held[victim]);
      held[victim] = held.back();
      held.pop_back();
    } else {
      const size_t bytes = draw / 8 % (size_t{1} << (draw / 1024 % 18));
      held.push_back(take(allocator_, bytes, static_cast<unsigned char>(draw)));
      served += bytes + 128;
    }
  }
  for (const Held& h : held) give(allocator_, h);
  EXPECT_EQ(allocator_.stats().live_allocations, 0);
}

TEST_P(Conformance, StatisticsAddUp) {
  const int64_t in_use_before = counter_value(GetParam().in_use);
  const AllocatorStats before = allocator_.stats();
  EXPECT_EQ(before.live_allocations, 0);
  const Held a = take(allocator_, 1000, 1), b = take(allocator_, 50000, 2);
  const AllocatorStats during = allocator_.stats();
  EXPECT_EQ(during.live_allocations, 2);
  EXPECT_EQ(during.total_allocations, before.total_allocations + 2);
  EXPECT_EQ(during.requested_bytes, 51000u);
  EXPECT_GE(during.in_use_bytes, during.requested_bytes);
  EXPECT_LE(during.in_use_bytes + during.free_bytes, during.reserved_bytes);
  EXPECT_LE(during.largest_free_bytes, during.free_bytes);
  EXPECT_GE(during.system_allocations, 1);
  EXPECT_EQ(counter_value(GetParam().in_use) - in_use_before,
            static_cast<int64_t>(during.in_use_bytes - before.in_use_bytes));
  give(allocator_, a);
  give(allocator_, b);
  const AllocatorStats after = allocator_.stats();
  EXPECT_EQ(after.live_allocations, 0);
  EXPECT_EQ(after.requested_bytes, 0u);
  EXPECT_GE(after.peak_in_use_bytes, during.in_use_bytes);
  EXPECT_GE(after.fragmentation(), 0.0);
  EXPECT_LE(after.fragmentation(), 1.0);
}

TEST_P(Conformance, ImpossibleRequestsAreTypedErrorsThatChangeNothing) {
  const Held held = take(allocator_, 100, 3);
  const AllocatorStats before = allocator_.stats();
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2, size_t{1} << 60}) {
    try {
      allocator_.allocate(bytes, "huge");
      ADD_FAILURE() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(bytes)));
      EXPECT_THAT(error.what(), testing::HasSubstr("'huge'"));
      EXPECT_THAT(error.what(), testing::HasSubstr("largest free block"));
    }
  }
  const AllocatorStats after = allocator_.stats();
  EXPECT_EQ(after.live_allocations, before.live_allocations);
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
  EXPECT_EQ(after.requested_bytes, before.requested_bytes);
  give(allocator_, held);
}

TEST_P(Conformance, TrimLeavesLiveBlocksAlone) {
  const Held kept = take(allocator_, 3000, 9);
  give(allocator_, take(allocator_, 5 << 20, 1));
  allocator_.trim();
  const Held again = take(allocator_, 3000, 10);
  give(allocator_, kept);
  give(allocator_, again);
}

TEST_P(Conformance, ServesThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      Rng rng(static_cast<uint64_t>(t));
      std::vector<Held> held;
      for (int i = 0; i < 500; ++i) {
        held.push_back(take(allocator_, rng.next_u64() % 20000, static_cast<unsigned char>(t * 50 + i)));
        if (held.size() > 10) {
          give(allocator_, held.front());
          held.erase(held.begin());
        }
      }
      for (const Held& h : held) give(allocator_, h);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator_.stats().live_allocations, 0);
}

const Case kCases[] = {
    {"device_pool", [](Stack& s) { s.add<cuda::DevicePool>(device()); }, Counter::kDeviceBytesInUse},
    {"device_pool_limited_and_tracked",
     [](Stack& s) {
       s.add<cuda::DevicePool>(device(), cuda::DevicePoolOptions{.initial_bytes = 100'000})
           .add<LimitingAllocator>(kArenaBytes)
           .add<TrackingAllocator>();
     },
     Counter::kDeviceBytesInUse},
    {"device_naive", [](Stack& s) { s.add<cuda::NaiveDeviceAllocator>(device()); },
     Counter::kDeviceBytesInUse},
    {"device_async", [](Stack& s) { s.add<cuda::AsyncDeviceAllocator>(device(), device_stream()); },
     Counter::kDeviceBytesInUse},
    {"naive", [](Stack& s) { s.add<NaiveAllocator>(); }},
    {"pool", [](Stack& s) { s.add<PoolAllocator>(); }},
    {"pool_of_small_chunks",
     [](Stack& s) { s.add<PoolAllocator>(PoolOptions{.initial_bytes = 4096, .max_chunk_bytes = 65536}); }},
    {"pool_without_growth",
     [](Stack& s) {
       s.add<PoolAllocator>(PoolOptions{.initial_bytes = kArenaBytes, .grow_on_demand = false});
     }},
    {"arena", [](Stack& s) { s.add<ArenaAllocator>(kArenaBytes); }},
    {"tracking_naive", [](Stack& s) { s.add<NaiveAllocator>().add<TrackingAllocator>(); }},
    {"tracking_pool", [](Stack& s) { s.add<PoolAllocator>().add<TrackingAllocator>(); }},
    {"limiting_pool", [](Stack& s) { s.add<PoolAllocator>().add<LimitingAllocator>(kArenaBytes); }},
    {"failing_pool", [](Stack& s) { s.add<PoolAllocator>().add<FailingAllocator>(int64_t{1} << 40); }},
    {"logging_pool", [](Stack& s) { s.add<PoolAllocator>().log(); }},
    {"tracking_limiting_arena",
     [](Stack& s) {
       s.add<ArenaAllocator>(kArenaBytes).add<LimitingAllocator>(kArenaBytes).add<TrackingAllocator>();
     }},
    {"logging_failing_limiting_tracking_pool", [](Stack& s) {
       s.add<PoolAllocator>()
           .add<TrackingAllocator>()
           .add<LimitingAllocator>(kArenaBytes)
           .add<FailingAllocator>(int64_t{1} << 40)
           .log();
     }}};

INSTANTIATE_TEST_SUITE_P(AllAllocators, Conformance, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace isochron
