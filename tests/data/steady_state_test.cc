// Iterating allocates nothing once the first epoch has begun: counted by replacing operator new and malloc in
// this program. Sanitizers bring their own, so the counting is off there.
#include <gmock/gmock.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "isochron/data/dataset.h"
#include "isochron/data/item.h"
#include "isochron/memory/buffer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ISOCHRON_COUNTS_ALLOCATIONS 0
#else
#define ISOCHRON_COUNTS_ALLOCATIONS 1
#endif

#if ISOCHRON_COUNTS_ALLOCATIONS
namespace {
std::atomic<long> g_allocations{0};
}

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

// operator new of the C++ library ends in these too.
void* malloc(size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(block, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
}

namespace isochron::data {
namespace {

template <typename Batches>
long allocations_of_epochs(Batches& batches, int epochs) {
  double sum = 0;
  const auto one_epoch = [&] {
    for (auto& [x, y] : batches) sum += x.template data<float>()[0] + static_cast<double>(y.elems());
  };
  one_epoch();
  const long before = g_allocations;
  for (int epoch = 0; epoch < epochs; ++epoch) one_epoch();
  EXPECT_GT(sum, 0);
  return g_allocations - before;
}

Tensor ones(const Shape& shape) {
  const Tensor tensor = empty({DType::kF32, shape});
  for (float& value : tensor.span<float>()) value = 1;
  return tensor;
}

TEST(SteadyState, TheCounterCounts) {
  const long before = g_allocations;
  delete new Element;
  EXPECT_GT(g_allocations, before);
}

TEST(SteadyState, ShuffledBatchesAllocateNothing) {
  auto batches = from_tensor_slices(ones({1000, 10}), ones({1000, 1})).shuffle(1000).batch(32);
  EXPECT_EQ(allocations_of_epochs(batches, 20), 0);
}

TEST(SteadyState, PrefetchedBatchesAllocateNothing) {
  auto batches =
      from_tensor_slices(ones({1000, 10}), ones({1000, 1})).shuffle(100).repeat(2).batch(32).prefetch();
  EXPECT_EQ(allocations_of_epochs(batches, 20), 0);
}

TEST(SteadyState, RowsAndMappedViewsAllocateNothing) {
  auto rows = from_tensor_slices(ones({100, 10}), ones({100, 1})).skip(1).take(90);
  EXPECT_EQ(allocations_of_epochs(rows, 5), 0);
  const auto swap = [](const Tensor& x, const Tensor& y) { return std::array{y, x}; };
  auto mapped = rows.map(swap).batch(8).prefetch(3);
  EXPECT_EQ(allocations_of_epochs(mapped, 5), 0);
}

TEST(SteadyState, MapsThatWriteToMemoryAllocateNothing) {
  const Dataset rows(Element{{"0", ones({100, 10})}, {"1", ones({100, 1})}});
  const auto twice = [](const Element& input, Item& output, const Position&) {
    const auto from = input[0].span<float>();
    auto* to = reinterpret_cast<float*>(output.room(0));
    std::transform(from.begin(), from.end(), to, [](float x) { return 2 * x; });
    *reinterpret_cast<float*>(output.room(1)) = input[1].item<float>();
  };
  const Signature row = {{DType::kF32, {10}}, {DType::kF32, {1}}};
  for (int64_t parallel : {1, 2}) {
    TupleDataset<2> batches(
        rows.map_into({"0", "1"}, row, twice, {.parallel = parallel}).shuffle(50).batch(8).prefetch(3));
    for (auto& [x, y] : batches) EXPECT_EQ(x.data<float>()[9], 2);
    EXPECT_EQ(allocations_of_epochs(batches, 5), 0);
  }
}

TEST(SteadyState, StreamsAllocateNothing) {
  TupleDataset<2> left(Dataset(Element{{"0", ones({100, 10})}, {"1", ones({100, 1})}})
                           .filter([](const Element&) { return true; })
                           .shuffle(20)
                           .batch(8, {.drop_remainder = true})
                           .prefetch(3));
  EXPECT_EQ(allocations_of_epochs(left, 5), 0);
}

}  // namespace
}  // namespace isochron::data
#endif
