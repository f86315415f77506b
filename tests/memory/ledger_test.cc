#include "isochron/memory/allocators/ledger.h"

#include <gtest/gtest.h>

#include <memory>

#include "isochron/memory/allocators/arena.h"
#include "isochron/memory/allocators/naive.h"
#include "isochron/memory/allocators/pool.h"
#include "support/sanitizers.h"

namespace isochron {
namespace {

TEST(Ledger, SumsTagsOverAllAllocators) {
  const Ledger before = read_ledger();
  PoolAllocator first, second;
  NaiveAllocator naive;
  ArenaAllocator arena(4096);
  void* blocks[] = {first.allocate(1000, "ledger weights"), second.allocate(500, "ledger weights"),
                    second.allocate(2'000'000, "ledger arena"), naive.allocate(100, "ledger naive"),
                    arena.allocate(200, "ledger bump")};
  const Ledger now = read_ledger();
  EXPECT_EQ(now.bytes_of("ledger weights"), 1500u);
  EXPECT_EQ(now.bytes_of("ledger arena"), 2'000'000u);
  EXPECT_EQ(now.bytes_of("ledger naive"), 0u) << "no tags kept there";
  EXPECT_EQ(now.bytes_of("untagged") - before.bytes_of("untagged"), 300u);
  EXPECT_EQ(now.allocators - before.allocators, 4);
  EXPECT_EQ(now.live_allocations - before.live_allocations, 5);
  EXPECT_GE(now.in_use_bytes - before.in_use_bytes, 2'001'800u);
  EXPECT_GE(now.reserved_bytes - before.reserved_bytes, now.in_use_bytes - before.in_use_bytes);
  if (!kSanitizer) {  // its heap has no mappings that we count
    EXPECT_GE(now.mapped_bytes - before.mapped_bytes, 2'000'000u) << "with pages of its own";
  }
  for (size_t i = 1; i < now.tags.size(); ++i) EXPECT_GE(now.tags[i - 1].bytes, now.tags[i].bytes);
  first.deallocate(blocks[0], 1000);
  second.deallocate(blocks[1], 500);
  second.deallocate(blocks[2], 2'000'000);
  naive.deallocate(blocks[3], 100);
  arena.deallocate(blocks[4], 200);
  EXPECT_EQ(read_ledger().bytes_of("ledger weights"), 0u);
}

TEST(Ledger, AllocatorsLeaveIt) {
  const Ledger before = read_ledger();
  {
    const auto pool = std::make_unique<PoolAllocator>();
    pool->deallocate(pool->allocate(size_t{4} << 20, "gone"), size_t{4} << 20);
    EXPECT_EQ(read_ledger().allocators, before.allocators + 1);
    EXPECT_GE(read_ledger().reserved_bytes, before.reserved_bytes + (size_t{4} << 20));
  }
  const Ledger after = read_ledger();
  EXPECT_EQ(after.allocators, before.allocators);
  EXPECT_EQ(after.reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(after.mapped_bytes, before.mapped_bytes);
}

}  // namespace
}  // namespace isochron
