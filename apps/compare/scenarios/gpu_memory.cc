// Scenario `gpu-memory`: the document's model, Dense(10, relu) on 100 inputs and Dense(1), Adam at 0.001,
// mean squared error, 1,000 rows in batches of 32. Four loops run the same captured step on the CPU or a
// device, but get its buffers from different sources.
#include <functional>
#include <memory>

#include "isochron/apps/compare/models/small_training.h"
#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/apps/compare/tables/gpu_memory.h"
#include "isochron/apps/device_wait.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/naive.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::IterationScope;
using observe::Phase;
using observe::PhaseScope;

constexpr int kCollectEvery = 10;
constexpr size_t kPoolBytes = size_t{1} << 20;
constexpr const char* kCollection = "collection";

/// Repeatedly runs `step` on all batches, and `collect`, if any, in every tenth iteration. If `planned`,
/// batches of a different size, which have a separate plan, form a separate class of steps.
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

/// Captures the step and makes a plan for each of the two batch sizes before the first step. Buffers come
/// from `allocator`, or from one arena if it is null. On a device the host waits for each step, as a loop
/// that reads the loss does.
void run_captured_on_device(LoopContext& context, Device device, Allocator* allocator,
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

std::unique_ptr<Allocator> naive_memory(Device device) {
  if (device.is_cpu()) return std::make_unique<NaiveAllocator>();
  return std::make_unique<cuda::NaiveDeviceAllocator>(cuda::gpu(device)->shared_context());
}
std::unique_ptr<Allocator> pool_memory(Device device) {
  if (device.is_cpu()) return std::make_unique<PoolAllocator>(PoolOptions{.initial_bytes = kPoolBytes});
  return std::make_unique<cuda::DevicePool>(cuda::gpu(device)->shared_context());
}

std::string memory_note(const AllocatorStats& stats) {
  return fmt::format(
      "{} allocations, {} of them from the system; peak {} in use, {} reserved at the end, fragmentation "
      "{:.1f} % (largest free block {})",
      stats.total_allocations, stats.system_allocations,
      observe::bytes_text(static_cast<double>(stats.peak_in_use_bytes)),
      observe::bytes_text(static_cast<double>(stats.reserved_bytes)), 100 * stats.fragmentation(),
      observe::bytes_text(static_cast<double>(stats.largest_free_bytes)));
}

/// The step's buffers come from an allocator in each run.
Loop allocating_loop(Device device, std::string name, std::string what,
                     std::unique_ptr<Allocator> (*make_memory)(Device), bool collect, Expectation expected) {
  const auto memory = std::make_shared<std::unique_ptr<Allocator>>();
  Loop loop;
  loop.name = std::move(name);
  loop.what = std::move(what);
  loop.iterations_per_epoch = kSmallSteps;
  loop.expected = std::move(expected);
  loop.run = [=](LoopContext& context) {
    *memory = make_memory(device);
    const auto collection = [&] { (*memory)->trim(); };
    run_captured_on_device(context, device, memory->get(),
                           collect ? std::function<void()>(collection) : nullptr);
  };
  loop.notes = [memory] { return std::vector<std::string>{memory_note((*memory)->stats())}; };
  return loop;
}

}  // namespace

Scenario gpu_memory_scenario(Device device) {
  Scenario scenario;
  scenario.name = "gpu-memory";
  scenario.complaint = "epoch time rises, memory fragments";
  const std::string system = device.is_cpu() ? "system" : "driver";
  scenario.loops.push_back(allocating_loop(
      device, "naive", fmt::format("every buffer of every step is its own allocation from the {}", system),
      naive_memory, false,
      {.slow = true, .cause = "system allocations in each step", .reports_fragmentation = true}));
  scenario.loops.push_back(allocating_loop(device, "growth on demand",
                                           "buffers come from a pool that grows on demand", pool_memory,
                                           false, {.reports_fragmentation = true}));
  scenario.loops.push_back(
      allocating_loop(device, "explicit collection",
                      "the same pool, which returns its free memory every 10 steps", pool_memory, true,
                      {.slow = true,
                       .memory = {Flatness::kFlat, Flatness::kInconclusive},  // it varies by a MiB
                       .spike_period = kCollectEvery,
                       .spike_label = observe::kTookMemoryLabel,
                       .reports_fragmentation = true}));
  Loop arena;
  arena.name = "planned arena";
  arena.what = "all buffers planned into one arena before the first step";
  arena.cured = true;
  arena.iterations_per_epoch = kSmallSteps;
  arena.expected = {.no_allocations = true};
  arena.run = [device](LoopContext& context) { run_captured_on_device(context, device, nullptr, {}); };
  scenario.loops.push_back(std::move(arena));
  scenario.tables = {fragmentation_table, limit_table, growth_table, kept_alive_table};
  if (!device.is_cpu())
    scenario.tables = {[device](double seconds) { return device_fragmentation_table(device, seconds); }};
  scenario.summary =
      "All loops run the same captured step; they differ only in where its buffers come from. Naive "
      "allocation asks the system for every buffer of every step. A pool asks once and reuses what it has. "
      "An explicit collection returns that memory every tenth step, and the next step has to allocate it "
      "again: a pause without any gain. The planned arena is laid out before the first step: no allocation, "
      "no fragmentation, no pause.";
  return scenario;
}

}  // namespace isochron::apps
