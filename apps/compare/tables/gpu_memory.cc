// Measures how memory fragments, grows and stays alive.
#include "isochron/apps/compare/tables/gpu_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "isochron/apps/compare/models/small_training.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/adaptors.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::apps {
namespace {

using observe::bytes_text;

std::vector<std::string> pool_row(std::string name, const AllocatorStats& stats) {
  return {std::move(name),
          fmt::format("{}", stats.total_allocations),
          bytes(stats.peak_in_use_bytes),
          bytes(stats.reserved_bytes),
          bytes(stats.free_bytes),
          bytes(stats.largest_free_bytes),
          fmt::format("{:.1f} %", 100 * stats.fragmentation())};
}

/// Repeats `what` until `seconds` have passed, but at least `least` times.
void repeat(double seconds, int64_t least, const std::function<void()>& what) {
  const int64_t until_ns = now_ns() + static_cast<int64_t>(seconds * 1e9);
  for (int64_t i = 0; i < least || now_ns() < until_ns; ++i) what();
}

AllocatorStats of_steps(double seconds) {
  PoolAllocator pool;
  SmallTraining training;
  const AllocatorScope scope(pool);
  repeat(seconds, 10, [&] {
    for (const auto& [x, y] : training.batches) training.eager_step(x, y);
  });
  return pool.stats();
}

/// The same step on random numbers of rows from 1 to 256.
AllocatorStats of_any_batch(double seconds) {
  PoolAllocator pool;
  SmallTraining training;
  Rng rng(3);
  const AllocatorScope scope(pool);
  repeat(seconds, 300, [&] {
    const auto rows = static_cast<int64_t>(1 + rng.below(256));
    training.eager_step(full({rows, 100}, 0.5), full({rows, 1}, 0.5));
  });
  return pool.stats();
}

/// 256 blocks of 64 B to 1 MiB (evenly over the powers of two); each step replaces a random one.
AllocatorStats of_random_lifetimes(Allocator& pool, double seconds) {
  Rng rng(4);
  struct Block {
    void* pointer = nullptr;
    size_t bytes = 0;
  };
  std::vector<Block> blocks(256);
  repeat(seconds, 20'000, [&] {
    Block& block = blocks[rng.below(blocks.size())];
    if (block.pointer != nullptr) pool.deallocate(block.pointer, block.bytes);
    block.bytes = static_cast<size_t>(std::exp2(6 + 14 * rng.uniform()));
    block.pointer = pool.allocate(block.bytes, "block");
  });
  const AllocatorStats stats = pool.stats();
  for (const Block& block : blocks) {
    if (block.pointer != nullptr) pool.deallocate(block.pointer, block.bytes);
  }
  return stats;
}

std::vector<std::string> planned_row(Device device) {
  SmallTraining training;
  auto step = capture([&](const Tensor& x, const Tensor& y) { return training.train_step(x, y); },
                      training.batches.signatures(), {.plan = {.device = device}});
  const auto& [first_x, first_y] = *training.batches.begin();
  step(first_x, first_y);
  const graph::PlanReport& plan = step.plan_report();
  return {"this training, planned",
          "1",
          bytes(plan.lower_bound_bytes),
          bytes(plan.arena_bytes),
          "-",
          "-",
          fmt::format("{:.1f} %", 100 * (plan.arena_ratio() - 1))};
}

observe::Table empty_fragmentation_table() {
  return {.title = "Fragmentation of the pool (1 - largest free block / all free memory)",
          .columns = {"workload", "allocations", "peak in use", "reserved", "free", "largest free",
                      "fragmentation"},
          .rows = {},
          .says = ""};
}

/// The ratio of held memory to the peak of memory in use.
double held_beyond_use(const AllocatorStats& stats) {
  return static_cast<double>(stats.reserved_bytes) / static_cast<double>(stats.peak_in_use_bytes);
}

constexpr const char* kRandomLifetimes = "256 blocks of 64 B to 1 MiB, replaced at random";

}  // namespace

observe::Table fragmentation_table(double seconds) {
  observe::Table table = empty_fragmentation_table();
  const AllocatorStats steps = of_steps(seconds / 3);
  PoolAllocator pool;
  const AllocatorStats random = of_random_lifetimes(pool, seconds / 3);
  table.rows.push_back(pool_row("this training, op by op", steps));
  const AllocatorStats any_batch = of_any_batch(seconds / 3);
  table.rows.push_back(pool_row("the same, 1 to 256 rows per batch", any_batch));
  table.rows.push_back(pool_row(kRandomLifetimes, random));
  table.rows.push_back(planned_row({}));
  table.says = fmt::format(
      "This training {} the pool: after {} allocations the pool holds {}, and its fragmentation is {:.1f} % "
      "({:.1f} % with batches of varying size). With random sizes and lifetimes it holds {:.2f} times the "
      "peak in use.",
      steps.fragmentation() < 0.1 ? "does not fragment" : "fragments", steps.total_allocations,
      bytes(steps.reserved_bytes), 100 * steps.fragmentation(), 100 * any_batch.fragmentation(),
      held_beyond_use(random));
  return table;
}

observe::Table device_fragmentation_table(Device device, double seconds) {
  observe::Table table = empty_fragmentation_table();
  AllocatorStats random;
  {
    cuda::DevicePool pool(cuda::gpu(device)->shared_context());
    random = of_random_lifetimes(pool, seconds);
  }
  table.rows = {pool_row(kRandomLifetimes, random), planned_row(device)};
  table.says = fmt::format(
      "With random sizes and lifetimes the device's pool holds {:.2f} times the peak in use, and its "
      "fragmentation is {:.1f} %. The plan's arena is one block.",
      held_beyond_use(random), 100 * random.fragmentation());
  return table;
}

namespace {

/// Steps on batches of 1 to 256 rows whose tensors come from a pool with a byte limit.
struct LimitedRun {
  AllocatorStats stats;
  int64_t steps = 0;
  int64_t refused = 0;  // steps that failed for lack of memory
  double mean_ns = 0;
  double longest_ns = 0;
};

LimitedRun run_limited(size_t max_bytes, double seconds) {
  constexpr size_t kInitialBytes = size_t{64} << 10;
  SmallTraining training;
  training.eager_step(full({1, 100}, 0.5), full({1, 1}, 0.5));  // parameters and optimizer state
  PoolAllocator pool({.initial_bytes = kInitialBytes, .max_bytes = max_bytes});
  const AllocatorScope scope(pool);
  Rng rng(3);
  LimitedRun run;
  double total_ns = 0;
  repeat(seconds, 300, [&] {
    const auto rows = static_cast<int64_t>(1 + rng.below(256));
    const int64_t began_ns = now_ns();
    try {
      training.eager_step(full({rows, 100}, 0.5), full({rows, 1}, 0.5));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      ++run.refused;
    }
    const auto ns = static_cast<double>(now_ns() - began_ns);
    total_ns += ns;
    run.longest_ns = std::max(run.longest_ns, ns);
    ++run.steps;
  });
  run.mean_ns = total_ns / static_cast<double>(run.steps);
  run.stats = pool.stats();
  return run;
}

}  // namespace

observe::Table limit_table(double seconds) {
  constexpr double kShares[] = {2, 1.2, 1, 0.8};  // limits, as shares of the maximum that the steps use
  const LimitedRun free = run_limited(kNoByteLimit, seconds / 5);
  observe::Table table{.title = "Batches of 1 to 256 rows, op by op, from a pool at its memory limit",
                       .columns = {"limit", "per step", "longest step", "retries after freeing memory",
                                   "steps out of memory", "fragmentation"},
                       .rows = {},
                       .says = ""};
  const auto row = [&table](std::string name, const LimitedRun& run) {
    table.rows.push_back(
        {std::move(name), observe::duration_text(run.mean_ns), observe::duration_text(run.longest_ns),
         fmt::format("{}", run.stats.retries),
         fmt::format("{:.1f} %", 100.0 * static_cast<double>(run.refused) / static_cast<double>(run.steps)),
         fmt::format("{:.1f} %", 100 * run.stats.fragmentation())});
  };
  row("none", free);
  const auto peak = static_cast<double>(free.stats.peak_in_use_bytes);
  double last = 0;
  for (const double share : kShares) {
    const auto limit = static_cast<size_t>(share * peak);
    const LimitedRun run = run_limited(limit, seconds / 5);
    row(fmt::format("{}, {:g}x the peak in use", bytes(limit), share), run);
    last = static_cast<double>(run.refused) / static_cast<double>(run.steps);
  }
  table.says = fmt::format(
      "Near the limit the pool has to return free chunks before it can allocate others, and fragmented free "
      "memory cannot serve a large batch. With a limit below the peak, {:.0f} % of the steps fail with an "
      "out-of-memory error.",
      100 * last);
  return table;
}

observe::Table growth_table(double /*seconds*/) {
  observe::Table table{
      .title = "Setting a pool to grow on demand",
      .columns = {"when", "result"},
      .rows = {},
      .says =
          "Growth must be set before the first use. Setting it later is an error, rather than a setting "
          "without effect."};
  const auto asked = [&](const char* when, PoolAllocator& pool) {
    std::string answer = "accepted";
    try {
      pool.set_memory_growth(true);
    } catch (const Error& error) {
      answer = error.what();
    }
    table.rows.push_back({when, answer});
  };
  PoolAllocator pool({.grow_on_demand = false});
  asked("before its first use", pool);
  void* block = pool.allocate(1000, "tensor");
  asked("after its first use", pool);
  pool.deallocate(block, 1000);
  return table;
}

observe::Table kept_alive_table(double /*seconds*/) {
  constexpr int kSteps = 100;
  observe::Table table{
      .title = fmt::format("Memory alive after {} steps, by what the loop keeps from each step", kSteps),
      .columns = {"kept", "live tensors", "bytes in use", "largest part"},
      .rows = {},
      .says = ""};
  size_t number_bytes = 0, last_bytes = 0;
  const auto row = [&](const char* name, bool one_tape, const std::function<void(const Tensor& loss)>& keep) {
    SmallTraining training;
    std::vector<std::pair<Tensor, Tensor>> batches;
    for (const auto& [x, y] : training.batches) batches.emplace_back(copy(x), copy(y));
    training.eager_step(batches[0].first, batches[0].second);  // parameters and optimizer state
    PoolAllocator pool;
    TrackingAllocator tracked(pool);
    {
      const AllocatorScope scope(tracked);
      const int64_t before = counter_value(Counter::kLiveTensors);
      GradientTape tape(/*persistent=*/true);
      tape.set_paused(!one_tape);
      for (size_t i = 0; i < kSteps; ++i) {
        const auto& [x, y] = batches[i % batches.size()];
        keep(one_tape ? training.train_step(x, y) : training.eager_step(x, y));
      }
      const AllocatorStats stats = tracked.stats();
      const std::vector<TagUsage> usage = tracked.usage_by_tag();
      table.rows.push_back({name, fmt::format("{}", counter_value(Counter::kLiveTensors) - before),
                            bytes(stats.requested_bytes),
                            usage.empty()
                                ? std::string("-")
                                : fmt::format("{}: {} in {}", usage.front().tag, bytes(usage.front().bytes),
                                              usage.front().allocations)});
      last_bytes = stats.requested_bytes;
      keep(Tensor());  // releases the tensors before the allocator is destroyed
    }
  };
  row("nothing", false, [](const Tensor&) {});
  std::vector<float> numbers;
  row("the loss as a number", false, [&](const Tensor& loss) {
    if (loss.defined()) numbers.push_back(loss.item<float>());
  });
  number_bytes = last_bytes;
  std::vector<Tensor> losses;
  const auto keep_loss = [&](const Tensor& loss) {
    loss.defined() ? losses.push_back(loss) : losses.clear();
  };
  row("the loss as a tensor", false, keep_loss);
  row("the loss, under one tape for all steps", true, keep_loss);
  table.says = fmt::format(
      "A loss kept as a number keeps {} alive. A loss kept under one tape keeps every tensor of its step: {} "
      "after {} steps, although the list holds a hundred losses in each case.",
      bytes(number_bytes), bytes(last_bytes), kSteps);
  return table;
}

}  // namespace isochron::apps
