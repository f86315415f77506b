// Device memory without a device: what is mapped, kept, returned and refused.
#include <gmock/gmock.h>

#include <cstring>

#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/cuda/device_allocators.h"
#include "support/expect_error.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {
namespace {

const size_t kGranularity = SimulatedDevice().granularity_bytes;

std::shared_ptr<SimulatedContext> small_device(size_t bytes = size_t{4} << 20) {
  return std::make_shared<SimulatedContext>(simulated_device(bytes));
}

TEST(DeviceRange, GrowsWhereItStands) {
  const auto context = small_device();
  const int64_t before = counter_value(Counter::kDeviceBytesReserved);
  {
    DeviceRange range(context, size_t{1} << 20);
    EXPECT_EQ(context->used_bytes(), 0u);
    range.grow(100);
    EXPECT_EQ(range.mapped_bytes(), kGranularity);
    auto* front = reinterpret_cast<char*>(range.base());
    std::memset(front, 1, kGranularity);
    range.grow(5 * kGranularity + 1);
    EXPECT_EQ(range.mapped_bytes(), 6 * kGranularity);
    EXPECT_EQ(counter_value(Counter::kDeviceBytesReserved) - before, static_cast<int64_t>(6 * kGranularity));
    EXPECT_EQ(front[0], 1);
    std::memset(front, 2, 6 * kGranularity);
    EXPECT_EQ(range.shrink(2 * kGranularity), 0u) << "the second chunk holds what is kept";
    EXPECT_EQ(range.shrink(kGranularity), 5 * kGranularity);
    EXPECT_EQ(context->used_bytes(), kGranularity);
  }
  EXPECT_EQ(context->used_bytes(), 0u);
  EXPECT_EQ(counter_value(Counter::kDeviceBytesReserved), before);
}

TEST(DeviceRange, RefusesMoreThanWasReservedAndAnythingOnceSealed) {
  DeviceRange range(small_device(), 2 * kGranularity);
  range.grow(1);
  EXPECT_ERROR(range.grow(3 * kGranularity), ErrorCode::kOutOfMemory, "reserved for 131072");
  range.seal();
  range.grow(kGranularity);
  EXPECT_ERROR(range.grow(2 * kGranularity), ErrorCode::kSealed, "from 65536 to 131072 bytes after sealing");
  EXPECT_ERROR(DeviceRange(small_device(), SIZE_MAX), ErrorCode::kOutOfMemory, "no device has addresses");
}

TEST(DeviceRange, AFailedCallLeavesNothingBehind) {
  for (const char* call : {"create", "map"}) {
    const auto context = small_device();
    DeviceRange range(context, size_t{1} << 20);
    range.grow(1);
    context->fail(call, 1, ErrorCode::kOutOfMemory);
    EXPECT_THROW(range.grow(kGranularity + 1), Error) << call;
    EXPECT_EQ(range.mapped_bytes(), kGranularity) << call;
    EXPECT_EQ(context->used_bytes(), kGranularity) << call;
    range.grow(kGranularity + 1);
    EXPECT_EQ(range.mapped_bytes(), 2 * kGranularity) << call;
  }
}

TEST(DevicePool, FreeNeighborsJoinAndGrowthJoinsWhatIsFreeAtTheEnd) {
  const auto context = small_device();
  DevicePool pool(context, {.initial_bytes = kGranularity});
  void* const a = pool.allocate(30'000, "a");
  void* const b = pool.allocate(30'000, "b");
  EXPECT_EQ(pool.stats().reserved_bytes, kGranularity);
  pool.deallocate(b, 30'000);
  void* const large = pool.allocate(90'000, "large");  // the end of the first chunk and the second
  EXPECT_EQ(large, b);
  EXPECT_EQ(pool.stats().reserved_bytes, 2 * kGranularity);
  pool.deallocate(a, 30'000);
  pool.deallocate(large, 90'000);
  EXPECT_EQ(pool.stats().fragmentation(), 0);
  EXPECT_EQ(pool.stats().largest_free_bytes, 2 * kGranularity);
  EXPECT_EQ(pool.trim(), 2 * kGranularity);
  EXPECT_EQ(context->used_bytes(), 0u);
  void* const again = pool.allocate(1, "again");
  EXPECT_EQ(again, a) << "the addresses stay";
  pool.deallocate(again, 1);
}

TEST(DevicePool, TagsSayWhatWasAskedForAndOneRefusalIsOneRetry) {
  DevicePool pool(small_device(), {.initial_bytes = kGranularity, .max_bytes = kGranularity});
  void* const small = pool.allocate(4, "weights");
  void* const larger = pool.allocate(300, "weights");
  const std::vector<TagUsage> usage = pool.usage_by_tag();
  ASSERT_EQ(usage.size(), 1u);
  EXPECT_EQ(usage[0].bytes, 304u);
  EXPECT_EQ(usage[0].bytes, pool.stats().requested_bytes);
  const int64_t before = counter_value(Counter::kMemoryRetries);
  EXPECT_ERROR(pool.allocate(2 * kGranularity, "more"), ErrorCode::kOutOfMemory, "'more'");
  EXPECT_EQ(counter_value(Counter::kMemoryRetries), before + 1);
  EXPECT_EQ(pool.stats().retries, 1);
  pool.deallocate(small, 4);
  pool.deallocate(larger, 300);
}

TEST(DevicePool, TakesTheSmallestBlockThatFits) {
  DevicePool pool(small_device());
  void* const blocks[] = {pool.allocate(4096, "hole"), pool.allocate(1, "wall"), pool.allocate(1024, "hole"),
                          pool.allocate(1, "wall")};
  pool.deallocate(blocks[0], 4096);
  pool.deallocate(blocks[2], 1024);
  void* const fitting = pool.allocate(1000, "fits");
  EXPECT_EQ(fitting, blocks[2]);
  pool.deallocate(fitting, 1000);
  pool.deallocate(blocks[1], 1);
  pool.deallocate(blocks[3], 1);
}

TEST(DevicePool, WithoutGrowthItsFirstMemoryIsAll) {
  DevicePool pool(small_device(), {.initial_bytes = kGranularity, .grow_on_demand = false});
  void* const most = pool.allocate(kGranularity, "most");
  EXPECT_ERROR(pool.allocate(1, "more"), ErrorCode::kOutOfMemory, "'more'");
  pool.deallocate(most, kGranularity);
  EXPECT_THROW(DevicePool(small_device(), {.initial_bytes = 2, .max_bytes = 1}), Error);
}

TEST(DevicePool, OnceSealedTheDeviceIsNotAsked) {
  const auto context = small_device();
  DevicePool pool(context, {.initial_bytes = kGranularity});
  void* const first = pool.allocate(1000, "first");
  pool.seal();
  context->forget_calls();
  void* const second = pool.allocate(1000, "second");
  EXPECT_ERROR(pool.allocate(kGranularity, "third"), ErrorCode::kSealed, "after sealing");
  EXPECT_EQ(context->calls("create") + context->calls("map") + context->calls("allocate"), 0);
  pool.deallocate(first, 1000);
  pool.deallocate(second, 1000);
}

TEST(DevicePool, OutOfMemoryTellsOfTheDeviceAndWhoHoldsIt) {
  DevicePool pool(small_device(size_t{1} << 20));
  void* const weights = pool.allocate(500'000, "weights");
  EXPECT_ERROR(pool.allocate(600'000, "activations"), ErrorCode::kOutOfMemory, "'weights' 500000 in 1");
  EXPECT_ERROR(pool.allocate(600'000, "activations"), ErrorCode::kOutOfMemory, "of its 1048576 bytes free");
  void* const fits = pool.allocate(500'000, "activations");  // not twice what there was, but what there is
  pool.deallocate(weights, 500'000);
  pool.deallocate(fits, 500'000);
}

TEST(AsyncDeviceAllocator, WhatComesBackServesAgainInStreamOrder) {
  const auto context = small_device();
  const Stream stream = context->create_stream(false);
  AsyncDeviceAllocator allocator(context, stream);
  for (int i = 0; i < 100; ++i) allocator.deallocate(allocator.allocate(kGranularity, "step"), kGranularity);
  EXPECT_EQ(allocator.stats().reserved_bytes, kGranularity);
  EXPECT_EQ(allocator.trim(), kGranularity);
  EXPECT_EQ(context->used_bytes(), 0u);
}

TEST(DeviceAllocators, WhatTheDriverIsAskedForIsCounted) {
  const auto asked = [](Allocator& allocator) {
    const int64_t before = counter_value(Counter::kSystemAllocations);
    for (int i = 0; i < 10; ++i) allocator.deallocate(allocator.allocate(1000, "step"), 1000);
    return counter_value(Counter::kSystemAllocations) - before;
  };
  NaiveDeviceAllocator naive(small_device());
  EXPECT_EQ(asked(naive), 10);
  DevicePool pool(small_device());
  EXPECT_EQ(asked(pool), 1) << "the pool grew once";
  EXPECT_EQ(asked(pool), 0);
}

}  // namespace
}  // namespace isochron::cuda
