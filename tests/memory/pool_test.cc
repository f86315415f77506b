#include "isochron/memory/allocators/pool.h"

#include <gmock/gmock.h>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/memory/allocators/arena.h"

namespace isochron {
namespace {

using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

std::string out_of_memory_text(Allocator& allocator, size_t bytes, std::string_view tag) {
  try {
    allocator.allocate(bytes, tag);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    return error.what();
  }
  ADD_FAILURE() << bytes << " bytes were served";
  return {};
}

TEST(Pool, TakesNothingBeforeFirstUse) {
  const int64_t before = counter_value(Counter::kSystemAllocations);
  PoolAllocator pool;
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
  EXPECT_EQ(counter_value(Counter::kSystemAllocations), before);
}

TEST(Pool, SteadyTrafficNeedsNothingFromTheSystem) {
  PoolAllocator pool;
  const auto round = [&] {
    std::vector<std::pair<void*, size_t>> held;
    for (size_t bytes : {100, 4096, 100, 70000, 400000, 12})
      held.emplace_back(pool.allocate(bytes, "t"), bytes);
    for (auto [pointer, bytes] : held) pool.deallocate(pointer, bytes);
  };
  round();
  const int64_t system_before = counter_value(Counter::kSystemAllocations);
  const AllocatorStats before = pool.stats();
  for (int i = 0; i < 1000; ++i) round();
  EXPECT_EQ(counter_value(Counter::kSystemAllocations), system_before);
  EXPECT_EQ(pool.stats().reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(pool.stats().peak_in_use_bytes, before.peak_in_use_bytes);
}

TEST(Pool, ReusesASmallBlockAtOnce) {
  PoolAllocator pool;
  void* first = pool.allocate(100, "a");
  pool.deallocate(first, 100);
  void* second = pool.allocate(90, "b");
  EXPECT_EQ(second, first);
  pool.deallocate(second, 90);
}

TEST(Pool, MergesNeighborsInEveryOrder) {
  constexpr size_t kBytes = 20000;
  std::vector<int> order = {0, 1, 2, 3};
  do {
    PoolAllocator pool;
    std::vector<void*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate(kBytes, "t"));
    for (int i : order) pool.deallocate(blocks[i], kBytes);
    EXPECT_EQ(pool.stats().fragmentation(), 0.0);
    EXPECT_EQ(pool.stats().largest_free_bytes, pool.stats().free_bytes);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Pool, MergesCachedSmallBlocksBeforeItGrows) {
  PoolAllocator pool({.initial_bytes = kMiB, .grow_on_demand = false});
  std::vector<void*> blocks;
  for (int i = 0; i < 500; ++i) blocks.push_back(pool.allocate(1000, "small"));
  for (void* block : blocks) pool.deallocate(block, 1000);
  EXPECT_GT(pool.stats().fragmentation(), 0.1);
  void* large = pool.allocate(kMiB - 4096, "large");
  pool.deallocate(large, kMiB - 4096);
  EXPECT_EQ(pool.stats().fragmentation(), 0.0);
}

TEST(Pool, ServesEveryRequestUpToItsLargestFreeBlock) {
  PoolAllocator pool({.initial_bytes = kMiB, .grow_on_demand = false});
  std::vector<std::pair<void*, size_t>> held;
  const auto take = [&](size_t bytes) { held.emplace_back(pool.allocate(bytes, "t"), bytes); };
  for (int i = 0; i < 40; ++i) take(20000 + 64 * i);
  for (int i = 0; i < 20; ++i) {  // every other one goes
    pool.deallocate(held[i].first, held[i].second);
    held.erase(held.begin() + i);
  }
  while (pool.stats().free_bytes > 0) {
    EXPECT_NO_THROW(take(pool.stats().largest_free_bytes));
  }
  EXPECT_EQ(held.size(), 41u);  // the 20 gaps and the end of the chunk are full now
  out_of_memory_text(pool, 1, "one more");
  for (auto [pointer, bytes] : held) pool.deallocate(pointer, bytes);
}

TEST(Pool, FragmentationIsOneMinusLargestOverFree) {
  PoolAllocator pool({.initial_bytes = kMiB, .grow_on_demand = false});
  constexpr size_t kBytes = 100'000 - 100'000 % 64 - 64;
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(pool.allocate(kBytes, "t"));
  void* rest = pool.allocate(pool.stats().largest_free_bytes, "rest");
  const size_t rest_bytes = pool.stats().requested_bytes - 10 * kBytes;
  EXPECT_EQ(pool.stats().free_bytes, 0u);
  for (int i = 0; i < 10; i += 2) pool.deallocate(blocks[i], kBytes);
  EXPECT_EQ(pool.stats().free_bytes, 5 * kBytes);
  EXPECT_EQ(pool.stats().largest_free_bytes, kBytes);
  EXPECT_DOUBLE_EQ(pool.stats().fragmentation(), 0.8);
  for (int i = 1; i < 10; i += 2) pool.deallocate(blocks[i], kBytes);
  EXPECT_EQ(pool.stats().fragmentation(), 0.0);
  pool.deallocate(rest, rest_bytes);
}

TEST(Pool, GrowsByDoublingChunksAndTrimsThem) {
  PoolAllocator pool({.initial_bytes = 64 << 10, .max_chunk_bytes = 256 << 10});
  std::vector<Event> events;
  const int sink = add_event_sink([&](const Event& event) { events.push_back(event); });
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(pool.allocate(30000, "t"));
  const AllocatorStats grown = pool.stats();
  EXPECT_GT(grown.system_allocations, 3);
  EXPECT_LT(grown.system_allocations, 20);
  for (void* block : blocks) pool.deallocate(block, 30000);
  EXPECT_EQ(pool.stats().reserved_bytes, grown.reserved_bytes);
  const int64_t reserved_before = counter_value(Counter::kBytesReserved);
  EXPECT_EQ(pool.trim(), grown.reserved_bytes);
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
  EXPECT_EQ(counter_value(Counter::kBytesReserved),
            reserved_before - static_cast<int64_t>(grown.reserved_bytes));
  EXPECT_EQ(pool.trim(), 0u);
  remove_event_sink(sink);
  ASSERT_EQ(events.size(), static_cast<size_t>(grown.system_allocations) + 1);
  EXPECT_EQ(events.front().kind, EventKind::kPoolGrowth);
  EXPECT_EQ(events.back().kind, EventKind::kPoolTrim);
  EXPECT_THAT(events.back().text, HasSubstr(std::to_string(grown.reserved_bytes)));
}

TEST(Pool, StaysBelowItsMaximum) {
  PoolAllocator pool({.initial_bytes = kMiB, .max_bytes = 4 * kMiB});
  void* held = pool.allocate(2 * kMiB, "weights");
  const std::string text = out_of_memory_text(pool, 3 * kMiB, "activations");
  EXPECT_THAT(text, HasSubstr("3145728 bytes of 'activations'"));
  EXPECT_THAT(text, HasSubstr("limit 4194304 bytes"));
  EXPECT_THAT(text, HasSubstr("'weights' 2097152 in 1"));
  EXPECT_LE(pool.stats().reserved_bytes, 4 * kMiB);
  pool.deallocate(held, 2 * kMiB);
  // The free chunk makes room for the larger one.
  held = pool.allocate(3 * kMiB, "activations");
  EXPECT_LE(pool.stats().reserved_bytes, 4 * kMiB);
  pool.deallocate(held, 3 * kMiB);
}

TEST(Pool, WithoutGrowthTheFirstChunkIsAll) {
  PoolAllocator pool({.initial_bytes = kMiB, .grow_on_demand = false});
  out_of_memory_text(pool, 2 * kMiB, "t");
  void* held = pool.allocate(kMiB / 2, "t");
  out_of_memory_text(pool, kMiB / 2, "t");
  EXPECT_EQ(pool.stats().system_allocations, 1);
  pool.deallocate(held, kMiB / 2);
}

TEST(Pool, MemoryGrowthIsFixedOnceUsed) {
  PoolAllocator pool({.initial_bytes = kMiB});
  pool.set_memory_growth(false);
  pool.set_memory_growth(true);
  pool.set_memory_growth(false);
  void* held = pool.allocate(10, "t");
  try {
    pool.set_memory_growth(true);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
  out_of_memory_text(pool, 2 * kMiB, "t");
  pool.deallocate(held, 10);
  EXPECT_THROW(pool.set_memory_growth(true), Error);
}

TEST(Pool, RejectsImpossibleOptions) {
  EXPECT_THROW(PoolAllocator({.initial_bytes = 0}), Error);
  EXPECT_THROW(PoolAllocator({.initial_bytes = 2 * kMiB, .max_bytes = kMiB}), Error);
}

TEST(Pool, TagsAreSummedLargestFirst) {
  PoolAllocator pool;
  void* a = pool.allocate(100, "small");
  void* b = pool.allocate(5000, "a tag that is longer than a header");
  void* c = pool.allocate(200, "small");
  const std::vector<TagUsage> usage = pool.usage_by_tag();
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_EQ(usage[0].tag, "a tag that is longer t");
  EXPECT_EQ(usage[0].bytes, 5000u);
  EXPECT_EQ(usage[1].bytes, 300u);
  EXPECT_EQ(usage[1].allocations, 2);
  pool.deallocate(a, 100);
  pool.deallocate(b, 5000);
  pool.deallocate(c, 200);
  EXPECT_TRUE(pool.usage_by_tag().empty());
}

#ifdef __SANITIZE_ADDRESS__
TEST(PoolDeathTest, AddressSanitizerSeesUseAfterFreeAndOverrun) {
  PoolAllocator pool;
  auto* data = static_cast<volatile char*>(pool.allocate(100, "t"));
  EXPECT_DEATH(data[100] = 1, "use-after-poison");
  pool.deallocate(const_cast<char*>(data), 100);
  EXPECT_DEATH(data[0] = 1, "use-after-poison");
}
#endif

TEST(Arena, IsOneSystemAllocationAndStartsOverOnReset) {
  const int64_t before = counter_value(Counter::kSystemAllocations);
  ArenaAllocator arena(4096);
  void* first = arena.allocate(100, "a");
  void* second = arena.allocate(100, "b");
  EXPECT_EQ(static_cast<std::byte*>(second) - static_cast<std::byte*>(first), 128);
  EXPECT_EQ(counter_value(Counter::kSystemAllocations), before + 1);
  EXPECT_THAT(out_of_memory_text(arena, 4096, "c"), HasSubstr("largest free block 3840"));
  EXPECT_THROW(arena.reset(), Error);
  arena.deallocate(first, 100);
  arena.deallocate(second, 100);
  arena.reset();
  void* whole = arena.allocate(4096, "c");
  EXPECT_EQ(whole, first);
  arena.deallocate(whole, 4096);
}

TEST(Arena, ReportsACapacityThatNoSystemHas) { EXPECT_THROW(ArenaAllocator(size_t{1} << 60), Error); }

}  // namespace
}  // namespace isochron
