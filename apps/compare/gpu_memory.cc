// Chapter `gpu-memory`: the document's model, Dense(10, relu) on 100 inputs and Dense(1), Adam at 0.001, mean
// squared error, 1,000 rows in batches of 32, run with four ways of getting memory.
#include <memory>

#include "isochron/apps/compare/chapter.h"
#include "isochron/apps/compare/gpu_memory_tables.h"
#include "isochron/apps/compare/small_training.h"
#include "isochron/graph/captured.h"
#include "isochron/memory/adaptors.h"
#include "isochron/memory/buffer.h"
#include "isochron/memory/naive.h"
#include "isochron/memory/pool.h"

namespace isochron::apps {
namespace {

using observe::IterationScope;
using observe::Phase;
using observe::PhaseScope;

constexpr int kCollectEvery = 10;
constexpr size_t kPoolBytes = size_t{1} << 20;
constexpr const char* kCollection = "collection";

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
  SmallTraining problem;
  for (const auto& [x, y] : problem.batches) problem.eager_step(x, y);
  AllocatorScope scope(allocator);
  int64_t steps = 0;
  for (;;) {
    for (const auto& [x, y] : problem.batches) {
      {
        IterationScope iteration(context.recorder);
        {
          PhaseScope compute(context.recorder, Phase::kCompute);
          problem.eager_step(x, y);
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
  SmallTraining problem;
  auto step = capture([&problem](const Tensor& x, const Tensor& y) { return problem.train_step(x, y); },
                      problem.batches.signatures(), {.name = "train_step"});
  step.seal();
  for (;;) {
    for (const auto& [x, y] : problem.batches) {
      {
        IterationScope iteration(context.recorder, x.extent(0) == kSmallBatch ? 0 : 1);  // each has its plan
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

Memory tracked(std::unique_ptr<Allocator> base) {
  auto tracked = std::make_unique<TrackingAllocator>(*base);
  return {std::move(base), std::move(tracked)};
}
Memory naive_memory() { return tracked(std::make_unique<NaiveAllocator>()); }
Memory pool_memory() {
  return tracked(std::make_unique<PoolAllocator>(PoolOptions{.initial_bytes = kPoolBytes}));
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

Loop eager_loop(std::string name, std::string what, Memory (*make_memory)(), bool collect,
                Expectation expected) {
  const auto memory = std::make_shared<Memory>();
  Loop loop;
  loop.name = std::move(name);
  loop.what = std::move(what);
  loop.iterations_per_epoch = kSmallSteps;
  loop.expected = std::move(expected);
  loop.run = [=](LoopContext& context) {
    *memory = make_memory();
    run_eager(context, *memory->tracked, collect);
  };
  loop.notes = [memory] { return memory_notes(*memory); };
  return loop;
}

}  // namespace

Chapter gpu_memory_chapter() {
  Chapter chapter;
  chapter.name = "gpu-memory";
  chapter.complaint = "epoch time rises, memory fragments";
  chapter.loops.push_back(
      eager_loop("naive", "op by op; every tensor is its own allocation from the system", naive_memory, false,
                 {.slow = true, .cause = "system allocations in each step", .reports_fragmentation = true}));
  chapter.loops.push_back(eager_loop("growth on demand", "op by op; a pool that grows when it must",
                                     pool_memory, false, {.reports_fragmentation = true}));
  chapter.loops.push_back(
      eager_loop("explicit collection", "the same, its free memory given back and taken anew every 10 steps",
                 pool_memory, true,
                 {.spike_period = kCollectEvery, .spike_label = kCollection, .reports_fragmentation = true}));
  Loop arena;
  arena.name = "planned arena";
  arena.what = "the whole step captured and planned into one arena";
  arena.cured = true;
  arena.iterations_per_epoch = kSmallSteps;
  arena.expected = {.no_allocations = true};
  arena.run = run_arena;
  chapter.loops.push_back(std::move(arena));
  chapter.tables = {fragmentation_table, growth_table, kept_alive_table};
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
