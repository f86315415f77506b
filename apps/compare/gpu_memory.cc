// Chapter `gpu-memory`: the document's model, Dense(10, relu) on 100 inputs and Dense(1), Adam at 0.001, mean
// squared error, 1,000 rows in batches of 32, run with four ways of getting memory.
#include <memory>

#include "isochron/apps/compare/chapter.h"
#include "isochron/autograd/autograd.h"
#include "isochron/core/rng.h"
#include "isochron/data/dataset.h"
#include "isochron/graph/captured.h"
#include "isochron/memory/adaptors.h"
#include "isochron/memory/buffer.h"
#include "isochron/memory/naive.h"
#include "isochron/memory/pool.h"
#include "isochron/nn/layers.h"
#include "isochron/nn/losses.h"
#include "isochron/nn/sequential.h"
#include "isochron/ops/creation.h"
#include "isochron/optim/optimizers.h"

namespace isochron::apps {
namespace {

using observe::IterationScope;
using observe::Phase;
using observe::PhaseScope;

constexpr int64_t kRows = 1000;
constexpr int64_t kBatch = 32;
constexpr int64_t kStepsPerEpoch = (kRows + kBatch - 1) / kBatch;  // the last has 8 rows
constexpr int kCollectEvery = 10;
constexpr size_t kPoolBytes = size_t{1} << 20;
constexpr const char* kCollection = "collection";

/// Model, optimizer and data of the document; each loop has its own.
struct Problem {
  Problem() : batches(make_batches()) {}

  static data::TupleDataset<2> make_batches() {
    Rng rng(1);
    Tensor x = empty({DType::kF32, {kRows, 100}});
    Tensor y = empty({DType::kF32, {kRows, 1}});
    for (float& value : x.span<float>()) value = static_cast<float>(rng.normal());
    for (float& value : y.span<float>()) value = static_cast<float>(rng.normal());
    return data::from_tensor_slices(x, y).batch(kBatch);
  }

  Tensor train_step(const Tensor& x, const Tensor& y) {
    const Tensor loss = nn::mean_squared_error(model(x), y);
    optimizer.minimize(loss, model.parameters());
    return loss;
  }

  data::TupleDataset<2> batches;
  nn::Sequential model{nn::Dense(10, nn::Activation::kRelu), nn::Dense(1)};
  optim::Adam optimizer{{.learning_rate = 1e-3}};
};

void eager_step(Problem& problem, const Tensor& x, const Tensor& y) {
  GradientTape tape;
  problem.train_step(x, y);
}

/// Gives all free memory back and takes anew what a step needs, so that the whole price stands under one
/// name.
void collect_garbage(Allocator& allocator) {
  allocator.trim();
  allocator.deallocate(allocator.allocate(kPoolBytes / 2, kCollection), kPoolBytes / 2);
}

/// The step op by op: every intermediate tensor is an allocation of its own from `allocator`. What lives for
/// the whole run (parameters, optimizer states, batches) is made before, so that a collection finds nothing
/// in its way.
void run_eager(LoopContext& context, Allocator& allocator, bool collect) {
  Problem problem;
  for (const auto& [x, y] : problem.batches) eager_step(problem, x, y);
  AllocatorScope scope(allocator);
  int64_t steps = 0;
  for (;;) {
    for (const auto& [x, y] : problem.batches) {
      {
        IterationScope iteration(context.recorder);
        {
          PhaseScope compute(context.recorder, Phase::kCompute);
          eager_step(problem, x, y);
        }
        if (collect && ++steps % kCollectEvery == 0) {
          PhaseScope collection(context.recorder, Phase::kCallbacks, kCollection);
          collect_garbage(allocator);
        }
      }
      if (!context.next()) return;
    }
  }
}

/// The step captured: one arena, planned before the first step for both batch sizes.
void run_arena(LoopContext& context) {
  Problem problem;
  auto step = capture([&problem](const Tensor& x, const Tensor& y) { return problem.train_step(x, y); },
                      problem.batches.signatures(), {.name = "train_step"});
  step.seal();
  for (;;) {
    for (const auto& [x, y] : problem.batches) {
      {
        IterationScope iteration(context.recorder, x.extent(0) == kBatch ? 0 : 1);  // each has its plan
        PhaseScope compute(context.recorder, Phase::kCompute);
        step(x, y);
      }
      if (!context.next()) return;
    }
  }
}

/// An allocator with its notes, shared by a loop's two functions.
struct Memory {
  std::unique_ptr<Allocator> base;
  std::unique_ptr<TrackingAllocator> tracked;
};

std::shared_ptr<Memory> naive_memory() {
  auto memory = std::make_shared<Memory>();
  memory->base = std::make_unique<NaiveAllocator>();
  memory->tracked = std::make_unique<TrackingAllocator>(*memory->base);
  return memory;
}

std::shared_ptr<Memory> pool_memory() {
  auto memory = std::make_shared<Memory>();
  PoolOptions options;
  options.initial_bytes = kPoolBytes;
  options.grow_on_demand = true;
  memory->base = std::make_unique<PoolAllocator>(options);
  memory->tracked = std::make_unique<TrackingAllocator>(*memory->base);
  return memory;
}

std::vector<std::string> memory_notes(const Memory& memory) {
  const AllocatorStats stats = memory.base->stats();
  return {fmt::format(
      "{} allocations, {} of them from the system; peak {} in use, {} reserved at the end, fragmentation "
      "{:.1f} % (largest free block {})",
      stats.total_allocations, stats.system_allocations,
      observe::bytes_text(static_cast<double>(stats.peak_in_use_bytes)),
      observe::bytes_text(static_cast<double>(stats.reserved_bytes)), 100 * stats.fragmentation(),
      observe::bytes_text(static_cast<double>(stats.largest_free_bytes)))};
}

Loop eager_loop(std::string name, std::string what, const std::shared_ptr<Memory>& memory, bool collect,
                Expectation expected) {
  Loop loop;
  loop.name = std::move(name);
  loop.what = std::move(what);
  loop.iterations_per_epoch = kStepsPerEpoch;
  loop.expected = std::move(expected);
  loop.run = [memory, collect](LoopContext& context) { run_eager(context, *memory->tracked, collect); };
  loop.notes = [memory] { return memory_notes(*memory); };
  return loop;
}

}  // namespace

Chapter gpu_memory_chapter() {
  Chapter chapter;
  chapter.name = "gpu-memory";
  chapter.complaint = "epoch time rises, memory fragments";
  chapter.loops.push_back(eager_loop(
      "naive", "op by op; every tensor is its own allocation from the system", naive_memory(), false,
      {.slow = true, .cause = "system allocations in each step", .reports_fragmentation = true}));
  chapter.loops.push_back(eager_loop("growth on demand", "op by op; a pool that grows when it must",
                                     pool_memory(), false, {.reports_fragmentation = true}));
  chapter.loops.push_back(
      eager_loop("explicit collection", "the same, its free memory given back and taken anew every 10 steps",
                 pool_memory(), true,
                 {.spike_period = kCollectEvery, .spike_label = kCollection, .reports_fragmentation = true}));
  Loop arena;
  arena.name = "planned arena";
  arena.what = "the whole step captured and planned into one arena";
  arena.cured = true;
  arena.iterations_per_epoch = kStepsPerEpoch;
  arena.expected = {.no_allocations = true};
  arena.run = run_arena;
  chapter.loops.push_back(std::move(arena));
  chapter.summary =
      "Naive allocation asks the system for every tensor of every step. A pool asks once and then reuses "
      "what it has, and "
      "collecting it by hand only moves the cost into a spike at every tenth step. The planned arena knows "
      "every buffer's "
      "lifetime beforehand: no allocation, no fragmentation, no spike, and the odd last batch has a plan of "
      "its own.";
  return chapter;
}

}  // namespace isochron::apps
