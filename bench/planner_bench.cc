// Times an allocation, an eager tensor and a memory plan. Plans also report arena / lower bound as `ratio`.
#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

#include "../tests/memory/plan_instances.h"
#include "isochron/memory/allocators/adaptors.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/naive.h"
#include "isochron/memory/allocators/pool.h"

namespace isochron {
namespace {

using namespace testing_support;

void allocate_pairs(benchmark::State& state, Allocator& allocator) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* pointer = allocator.allocate(bytes, "tensor");
    benchmark::DoNotOptimize(pointer);
    allocator.deallocate(pointer, bytes);
  }
}

void BM_PoolPair(benchmark::State& state) {
  PoolAllocator pool;
  allocate_pairs(state, pool);
}
BENCHMARK(BM_PoolPair)->Arg(64)->Arg(4096)->Arg(1 << 20);

void BM_NaivePair(benchmark::State& state) {
  NaiveAllocator naive;
  allocate_pairs(state, naive);
}
BENCHMARK(BM_NaivePair)->Arg(64)->Arg(4096)->Arg(1 << 20);

void BM_TrackedPoolPair(benchmark::State& state) {
  PoolAllocator pool;
  TrackingAllocator tracking(pool);
  allocate_pairs(state, tracking);
}
BENCHMARK(BM_TrackedPoolPair)->Arg(64);

// Blocks of mixed sizes, freed in a different order than they were allocated.
void BM_PoolMixed(benchmark::State& state) {
  constexpr size_t kHeld = 64;
  PoolAllocator pool;
  Rng rng(1);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 4096; ++i) sizes.push_back(random_size(rng) / 16);
  std::vector<std::pair<void*, size_t>> held(kHeld, {nullptr, 0});
  size_t step = 0;
  for (auto _ : state) {
    auto& [pointer, bytes] = held[step * 29 % kHeld];
    if (pointer != nullptr) pool.deallocate(pointer, bytes);
    bytes = sizes[step++ % sizes.size()];
    pointer = pool.allocate(bytes, "tensor");
  }
  for (auto [pointer, bytes] : held) {
    if (pointer != nullptr) pool.deallocate(pointer, bytes);
  }
}
BENCHMARK(BM_PoolMixed);

void BM_Empty(benchmark::State& state) {
  const TensorSpec spec{DType::kF32, {32, 10}};
  for (auto _ : state) benchmark::DoNotOptimize(empty(spec));
}
BENCHMARK(BM_Empty);

void plan(benchmark::State& state, const Requests& requests) {
  double ratio = 0;
  for (auto _ : state) ratio = plan_memory(requests).ratio();
  state.counters["buffers"] = static_cast<double>(requests.size());
  state.counters["ratio"] = ratio;
}

void BM_PlanTrainingStep(benchmark::State& state) {
  plan(state, training_step(static_cast<int>(state.range(0)), 1));
}
BENCHMARK(BM_PlanTrainingStep)->Arg(8)->Arg(50)->Arg(285)->Arg(28'500)->Unit(benchmark::kMillisecond);

void BM_PlanRandomLifetimes(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  plan(state, random_lifetimes(count, count / 2, state.range(1), 1));
}
BENCHMARK(BM_PlanRandomLifetimes)
    ->Args({1000, 20})
    ->Args({1000, 300})
    ->Args({100'000, 50})
    ->Args({100'000, 2000})
    ->Args({100'000, 50'000})
    ->Unit(benchmark::kMillisecond);

void BM_PlanCutRectangle(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  plan(state, cut_rectangle(count, count * 2, count * 100, 1));
}
BENCHMARK(BM_PlanCutRectangle)
    ->Arg(12)
    ->Arg(40)
    ->Arg(100)
    ->Arg(500)
    ->Arg(1000)
    ->Unit(benchmark::kMillisecond);

void BM_PlanPinwheels(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  plan(state, cut_pinwheels(count, count * 2, count * 100, static_cast<uint64_t>(state.range(1))));
}
BENCHMARK(BM_PlanPinwheels)->ArgsProduct({{100, 200, 350, 500}, {1, 2, 3}})->Unit(benchmark::kMillisecond);

void BM_PlanTiles(benchmark::State& state) {
  const int side = static_cast<int>(state.range(0));
  plan(state,
       tile_rectangle(side, side, side * side, side * side * 50, static_cast<uint64_t>(state.range(1))));
}
BENCHMARK(BM_PlanTiles)->ArgsProduct({{16, 22, 30, 35}, {1, 2, 3}})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace isochron
