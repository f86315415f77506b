#include "isochron/memory/allocators/buffer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/pool.h"

namespace isochron {
namespace {

TEST(Buffer, IsOneAlignedAllocationGivenBackAtTheEnd) {
  PoolAllocator pool;
  {
    Ref<Storage> buffer = Buffer::create(pool, 100, "weights");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kCpuAlignment, 0u);
    EXPECT_EQ(buffer->size_bytes(), 100u);
    std::memset(buffer->data(), 1, buffer->size_bytes());
    EXPECT_EQ(pool.stats().live_allocations, 1);
    ASSERT_EQ(pool.usage_by_tag().size(), 1u);
    EXPECT_EQ(pool.usage_by_tag()[0].tag, "weights");
  }
  EXPECT_EQ(pool.stats().live_allocations, 0);
  EXPECT_EQ(pool.stats().in_use_bytes, 0u);
}

TEST(Buffer, EmptyMakesAContiguousTensorOfTheSpec) {
  const int64_t live_before = counter_value(Counter::kLiveTensors);
  {
    const Tensor x = empty({DType::kF32, {3, 5}});
    EXPECT_EQ(x.shape().str(), "(3, 5)");
    EXPECT_TRUE(x.contiguous());
    for (float& value : x.span<float>()) value = 2.0f;
    EXPECT_EQ(x.to_vector(), std::vector<double>(15, 2.0));
  }
  EXPECT_EQ(counter_value(Counter::kLiveTensors), live_before);
}

TEST(Buffer, EmptyOfNoElementsIsFine) {
  const Tensor x = empty({DType::kF64, {0, 7}});
  EXPECT_EQ(x.elems(), 0);
  EXPECT_TRUE(x.span<double>().empty());
}

TEST(Buffer, SizesBeyondTheAddressSpaceAreErrors) {
  PoolAllocator pool;
  AllocatorScope scope(pool);
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 64, SIZE_MAX / 2}) {
    try {
      (void)allocate_buffer(bytes);
      ADD_FAILURE() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    }
  }
  try {
    (void)empty({DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOverflow);
  }
}

TEST(AllocatorScope, OverridesOnThisThreadAndNests) {
  Allocator& process = default_allocator();
  PoolAllocator outer, inner;
  {
    AllocatorScope a(outer);
    const Tensor x = empty({DType::kF32, {4}});
    {
      AllocatorScope b(inner);
      const Tensor y = empty({DType::kF32, {4}});
      EXPECT_EQ(inner.stats().live_allocations, 1);
    }
    EXPECT_EQ(&default_allocator(), &outer);
    EXPECT_EQ(outer.stats().live_allocations, 1);
  }
  EXPECT_EQ(&default_allocator(), &process);
  EXPECT_EQ(outer.stats().live_allocations, 0);
}

TEST(AllocatorScope, BufferReturnsToItsMakerAfterTheScope) {
  PoolAllocator pool;
  Tensor x;
  {
    AllocatorScope scope(pool);
    x = empty({DType::kF32, {4}});
  }
  EXPECT_EQ(pool.stats().live_allocations, 1);
  x = Tensor();
  EXPECT_EQ(pool.stats().live_allocations, 0);
}

TEST(DefaultAllocator, CanBeReplaced) {
  PoolAllocator pool;
  Allocator& before = set_default_allocator(pool);
  { const Tensor x = empty({DType::kF32, {4}}); }
  EXPECT_EQ(&set_default_allocator(before), &pool);
  EXPECT_EQ(pool.stats().total_allocations, 1);
  EXPECT_EQ(&default_allocator(), &before);
}

}  // namespace
}  // namespace isochron
