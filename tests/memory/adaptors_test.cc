#include "isochron/memory/allocators/adaptors.h"

#include <gmock/gmock.h>

#include <sstream>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/naive.h"
#include "isochron/memory/allocators/pool.h"

namespace isochron {
namespace {

using testing::HasSubstr;

TEST(Tracking, CountsBytesAndAllocationsByTag) {
  NaiveAllocator naive;
  TrackingAllocator tracking(naive);
  void* a = tracking.allocate(100, "weights");
  void* b = tracking.allocate(30, "activations");
  void* c = tracking.allocate(40, "activations");
  std::vector<TagUsage> usage = tracking.usage_by_tag();
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_EQ(usage[0].tag, "weights");
  EXPECT_EQ(usage[0].bytes, 100u);
  EXPECT_EQ(usage[1].bytes, 70u);
  EXPECT_EQ(usage[1].allocations, 2);
  tracking.deallocate(b, 30);
  tracking.deallocate(c, 40);
  usage = tracking.usage_by_tag();
  ASSERT_EQ(usage.size(), 1u);
  EXPECT_EQ(usage[0].tag, "weights");
  tracking.deallocate(a, 100);
}

TEST(Tracking, AddsTagsToAnOutOfMemoryTextThatLacksThem) {
  NaiveAllocator naive;
  TrackingAllocator tracking(naive);
  LimitingAllocator limiting(tracking, 1000);
  void* held = limiting.allocate(900, "weights");
  try {
    limiting.allocate(200, "activations");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'weights' 900 in 1"));
    EXPECT_THAT(error.what(), HasSubstr("limit 1000 bytes"));
  }
  try {
    tracking.allocate(SIZE_MAX / 2, "huge");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("'weights' 900 in 1"));
  }
  limiting.deallocate(held, 900);
}

TEST(Limiting, AllowsExactlyTheLimit) {
  PoolAllocator pool;
  LimitingAllocator limiting(pool, 1000);
  void* a = limiting.allocate(600, "a");
  void* b = limiting.allocate(400, "b");
  EXPECT_THROW(limiting.allocate(1, "c"), Error);
  limiting.deallocate(a, 600);
  void* c = limiting.allocate(600, "c");
  limiting.deallocate(b, 400);
  limiting.deallocate(c, 600);
}

TEST(Limiting, ARefusalUpstreamTakesNothingFromTheLimit) {
  PoolAllocator pool({.initial_bytes = 1 << 20, .grow_on_demand = false});
  LimitingAllocator limiting(pool, 4 << 20);
  for (int i = 0; i < 10; ++i) EXPECT_THROW(limiting.allocate(2 << 20, "large"), Error);
  void* held = limiting.allocate(1 << 19, "fits");
  limiting.deallocate(held, 1 << 19);
}

TEST(Limiting, CountsWhatIsClaimed) {
  PoolAllocator pool;
  LimitingAllocator limiting(pool, 1000);
  limiting.claim(600, "elsewhere");
  EXPECT_EQ(limiting.live_bytes(), 600u);
  EXPECT_THROW(limiting.allocate(401, "a"), Error);
  EXPECT_THROW(limiting.claim(401, "elsewhere"), Error);
  limiting.deallocate(limiting.allocate(400, "b"), 400);
  limiting.release(600);
  EXPECT_EQ(limiting.live_bytes(), 0u);
}

TEST(Failing, FailsTheNthAndNoOther) {
  for (int64_t n = 1; n <= 5; ++n) {
    PoolAllocator pool;
    FailingAllocator failing(pool, n);
    for (int64_t call = 1; call <= 6; ++call) {
      EXPECT_EQ(failing.failed(), call > n);
      if (call == n) {
        EXPECT_THROW(failing.allocate(10, "t"), Error);
      } else {
        failing.deallocate(failing.allocate(10, "t"), 10);
      }
    }
  }
}

TEST(Failing, EveryFailedTensorLeavesNothingBehind) {
  PoolAllocator pool;
  for (int64_t n = 1;; ++n) {
    FailingAllocator failing(pool, n);
    AllocatorScope scope(failing);
    const int64_t live_tensors = counter_value(Counter::kLiveTensors);
    try {
      std::vector<Tensor> tensors;
      for (int i = 0; i < 5; ++i) tensors.push_back(empty({DType::kF32, {4, 4}}));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    }
    EXPECT_EQ(pool.stats().live_allocations, 0);
    EXPECT_EQ(counter_value(Counter::kLiveTensors), live_tensors);
    if (!failing.failed()) {
      EXPECT_EQ(n, 6);
      break;
    }
  }
}

TEST(Logging, WritesOneRowACall) {
  PoolAllocator pool({.initial_bytes = 1 << 16, .grow_on_demand = false});
  std::ostringstream out;
  LoggingAllocator logging(pool, out);
  void* a = logging.allocate(10, "weights");
  void* b = logging.allocate(20, "a \"b\", c");
  logging.deallocate(a, 10);
  EXPECT_THROW(logging.allocate(1 << 20, "large"), Error);
  a = logging.allocate(10, "again");
  logging.deallocate(a, 10);
  logging.deallocate(b, 20);
  EXPECT_EQ(out.str(),
            "sequence,op,bytes,tag,address_id\n"
            "1,allocate,10,weights,1\n"
            "2,allocate,20,\"a \"\"b\"\", c\",2\n"
            "3,deallocate,10,weights,1\n"
            "4,fail,1048576,large,0\n"
            "5,allocate,10,again,3\n"
            "6,deallocate,10,again,3\n"
            "7,deallocate,20,\"a \"\"b\"\", c\",2\n");
}

TEST(Logging, StopsAtItsBoundAndCountsTheRest) {
  PoolAllocator pool;
  std::ostringstream out;
  LoggingAllocator logging(pool, out, 3);
  const int64_t dropped = counter_value(Counter::kDropped);
  for (int i = 0; i < 4; ++i) logging.deallocate(logging.allocate(1, "t"), 1);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(counter_value(Counter::kDropped) - dropped, 5);
}

}  // namespace
}  // namespace isochron
