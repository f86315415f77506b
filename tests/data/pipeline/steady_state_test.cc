// Iterating allocates nothing once the first epoch has begun. The test counts allocations by replacing
// operator new and malloc in this program. Sanitizers replace them too, so the counting is off there.
#include <gmock/gmock.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "isochron/core/files/record_file.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/formats/example.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/sources/files.h"
#include "isochron/data/stages/combine.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/temp_folder.h"

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

// operator new of the C++ library calls these too.
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
  Element* volatile made = new Element;  // volatile: no compiler may leave it out
  delete made;
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
  const auto twice = [](const Element& input, ElementBuffer& output, const Position&) {
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

long allocations_of(Dataset& dataset, int warm_up, int epochs) {
  const auto one_epoch = [&] {
    for (const Element& element : dataset) EXPECT_TRUE(element[0].defined());
  };
  for (int epoch = 0; epoch < warm_up; ++epoch) one_epoch();
  const long before = g_allocations;
  for (int epoch = 0; epoch < epochs; ++epoch) one_epoch();
  return g_allocations - before;
}

TEST(SteadyState, ManyShapesAllocateNothing) {
  Dataset ragged = from_generator({"x"}, {spec_of(DType::kF32, {kAnyExtent})}, [](uint64_t) {
                     return [n = int64_t{0}](ElementBuffer& buffer) mutable {
                       const int64_t extent = 1 + 7 * n % 40;
                       std::fill_n(reinterpret_cast<float*>(buffer.room(0, {extent})), extent, 1.0f);
                       return n++ < 200;
                     };
                   }).shuffle(9);
  EXPECT_EQ(allocations_of(ragged, 20, 20), 0);
  Dataset batches = ragged.padded_batch(3, {.drop_remainder = true});
  EXPECT_EQ(allocations_of(batches, 20, 20), 0);
}

TEST(SteadyState, RecordsAllocateNothing) {
  const TempFolder folder;
  const auto allocations = [&](int records) {
    const auto path = folder / fmt::format("{}.tfrecord", records);
    {
      RecordWriter writer(path);
      ExampleBuilder builder;
      std::string bytes;
      for (int i = 0; i < records; ++i) {
        builder.clear();
        builder.add("x", std::array{1.0f, 2.0f});
        builder.serialize(bytes);
        writer.write(std::as_bytes(std::span(bytes)));
      }
      writer.close();
    }
    Dataset examples = from_examples({path}, {{.name = "x", .kind = FeatureKind::kFloat, .shape = Shape{2}}});
    return allocations_of(examples, 2, 1);
  };
  EXPECT_EQ(allocations(500), allocations(50)) << "those of opening the file";
}

/// The bytes actually allocated from the heap and from the pipelines' pool.
size_t taken_bytes() {
  const auto heap = mallinfo2();
  return heap.uordblks + heap.hblkhd + pipeline_allocator().stats().in_use_bytes;
}

TEST(PipelineMemory, CountsWhatTinyElementsTake) {
  constexpr int64_t kElems = 20'000;
  for (const size_t tensors : {size_t{1}, size_t{3}}) {
    Element source;
    for (size_t i = 0; i < tensors; ++i)
      source.add(std::string(1, static_cast<char>('a' + i)), ones({2 * kElems}));
    Dataset held = Dataset(source).filter([](const Element&) { return true; }).shuffle(kElems);
    const size_t counted_before = memory_in_use_bytes(), taken_before = taken_bytes();
    held.begin();
    const size_t counted = memory_in_use_bytes() - counted_before, taken = taken_bytes() - taken_before;
    EXPECT_GT(counted, kElems * sizeof(float));
    EXPECT_LE(taken, counted + counted / 20) << tensors << " tensors";
    EXPECT_GE(taken, counted - counted / 5);
  }
}

}  // namespace
}  // namespace isochron::data
#endif
