// Chapter `gpu-memory`: the document's model, Dense(10, relu) on 100 inputs and Dense(1), Adam at 0.001, mean
// squared error, 1,000 rows in batches of 32, run with four ways of getting memory, the CPU's or a device's.
#include <functional>
#include <memory>

#include "isochron/apps/compare/chapter.h"
#include "isochron/apps/compare/gpu_memory_tables.h"
#include "isochron/apps/compare/small_training.h"
#include "isochron/apps/device_wait.h"
#include "isochron/graph/captured.h"
#include "isochron/memory/adaptors.h"
#include "isochron/memory/buffer.h"
#include "isochron/memory/cuda/gpu.h"
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

/// `step` on all batches again and again, and `collect`, where there is one, in every tenth iteration.
/// `planned`: batches of another size, which have another plan, are a class of their own.
void run_batches(LoopContext& context, SmallTraining& problem, bool planned,
                 const std::function<void(const Tensor& x, const Tensor& y)>& step,
                 const std::function<void()>& collect = {}) {
  int64_t steps = 0;
  for (;;) {
    for (const auto& [x, y] : problem.batches) {
      {
        IterationScope iteration(context.recorder, planned && x.extent(0) != kSmallBatch ? 1 : 0);
        {
          PhaseScope compute(context.recorder, Phase::kCompute);
          step(x, y);
        }
        if (collect && ++steps % kCollectEvery == 0) {
          PhaseScope collection(context.recorder, Phase::kCallbacks, kCollection);
          collect();
        }
      }
      if (!context.next()) return;
    }
  }
}

/// The step op by op: every intermediate tensor is an allocation of its own from `allocator`. What lives for
/// the whole run (parameters, optimizer states, batches) is made before, so that a collection finds nothing
/// in its way.
void run_eager(LoopContext& context, Allocator& allocator, const std::function<void()>& collect) {
  SmallTraining problem;
  for (const auto& [x, y] : problem.batches) problem.eager_step(x, y);
  AllocatorScope scope(allocator);
  run_batches(
      context, problem, false, [&](const Tensor& x, const Tensor& y) { problem.eager_step(x, y); }, collect);
}

/// The step captured, a plan for each of both batch sizes made before the first step; buffers come from
/// `allocator`, or from one arena where it is null. On a device the host waits for each step, as one that
/// reads its loss.
void run_captured(LoopContext& context, Device device, Allocator* allocator,
                  const std::function<void()>& collect) {
  SmallTraining problem;
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train_step(x, y); },
                      problem.batches.signatures(),
                      {.name = "train_step", .plan = {.device = device, .allocator = allocator}});
  step.seal();
  const DeviceWait wait(device);
  run_batches(
      context, problem, true,
      [&](const Tensor& x, const Tensor& y) {
        step(x, y);
        wait();
      },
      collect);
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
Memory naive_memory(Device device) {
  if (device.is_cpu()) return tracked(std::make_unique<NaiveAllocator>());
  return tracked(std::make_unique<cuda::NaiveDeviceAllocator>(cuda::gpu(device)->shared_context()));
}
Memory pool_memory(Device device) {
  if (device.is_cpu())
    return tracked(std::make_unique<PoolAllocator>(PoolOptions{.initial_bytes = kPoolBytes}));
  return tracked(std::make_unique<cuda::DevicePool>(cuda::gpu(device)->shared_context()));
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

/// On a device, where no op runs by itself, the step's kernels are launched one by one.
Loop unplanned_loop(Device device, std::string name, const std::string& what, Memory (*make_memory)(Device),
                    bool collect, Expectation expected) {
  const auto memory = std::make_shared<Memory>();
  Loop loop;
  loop.name = std::move(name);
  loop.what = (device.is_cpu() ? "op by op; " : "kernel by kernel; ") + what;
  loop.iterations_per_epoch = kSmallSteps;
  loop.expected = std::move(expected);
  loop.run = [=](LoopContext& context) {
    *memory = make_memory(device);
    Allocator& allocator = *memory->tracked;
    const std::function<void()> collection = [&] { collect_garbage(allocator); };
    if (device.is_cpu()) {
      run_eager(context, allocator, collect ? collection : nullptr);
    } else {
      run_captured(context, device, &allocator, collect ? collection : nullptr);
    }
  };
  loop.notes = [memory] { return memory_notes(*memory); };
  return loop;
}

}  // namespace

Chapter gpu_memory_chapter(Device device) {
  Chapter chapter;
  chapter.name = "gpu-memory";
  chapter.complaint = "epoch time rises, memory fragments";
  chapter.loops.push_back(unplanned_loop(
      device, "naive",
      fmt::format("every tensor is its own allocation from the {}", device.is_cpu() ? "system" : "driver"),
      naive_memory, false,
      {.slow = true, .cause = "system allocations in each step", .reports_fragmentation = true}));
  chapter.loops.push_back(unplanned_loop(device, "growth on demand", "a pool that grows when it must",
                                         pool_memory, false, {.reports_fragmentation = true}));
  chapter.loops.push_back(unplanned_loop(
      device, "explicit collection", "a pool whose free memory is given back and taken anew every 10 steps",
      pool_memory, true,
      {.spike_period = kCollectEvery, .spike_label = kCollection, .reports_fragmentation = true}));
  Loop arena;
  arena.name = "planned arena";
  arena.what = "the whole step captured and planned into one arena";
  arena.cured = true;
  arena.iterations_per_epoch = kSmallSteps;
  arena.expected = {.no_allocations = true};
  arena.run = [device](LoopContext& context) { run_captured(context, device, nullptr, {}); };
  chapter.loops.push_back(std::move(arena));
  chapter.tables = {fragmentation_table, growth_table, kept_alive_table};
  if (!device.is_cpu())
    chapter.tables = {[device](double seconds) { return device_fragmentation_table(device, seconds); }};
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
