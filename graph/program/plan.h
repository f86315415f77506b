// Turns a graph into an executable plan: prepares kernels, places buffers in one arena, binds addresses.
// A plan of a sub-graph lives inside its parent's arena (the parent kernel's workspace).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/telemetry/trace.h"
#include "isochron/graph/ir/backend.h"
#include "isochron/graph/ir/graph.h"
#include "isochron/graph/program/executor.h"
#include "isochron/graph/program/program.h"

namespace isochron {
class Allocator;
}
namespace isochron::cuda {
class KernelModule;
}

namespace isochron::graph {

struct PlanOptions {
  int threads = 0;  // 0: compute_threads()
  bool poison =
      false;  // debug: fill dead buffers and the red zones between buffers with NaN, and check the zones
  /// Debug: the first kernel whose floating-point result holds NaN or infinity throws kNotANumber
  /// (graph/ir/checked_kernel.h), on the CPU also within loops and branches. On a device, the kernels are
  /// then launched one by one. In a captured function, each op then runs as its own kernel
  /// (CaptureOptions::check_numerics).
  bool check_numerics = false;
  /// The device that the plan runs on. Variables must be there; constants are copied. An op without a
  /// kernel for the device is decomposed (kUnsupported names those that can't be). Only the CPU supports
  /// poison.
  Device device = {};
  /// The backend that runs the plan; null: the device's.
  const Backend* backend = nullptr;
  /// On a device: Precision::kTf32. A captured function sets it.
  bool tf32 = false;
  /// On a device: instructions that don't need each other's results and share no memory may run concurrently.
  bool concurrent = true;
  /// For comparison with frameworks that don't plan memory: at every run, each buffer except results is
  /// allocated here by the first instruction that uses it and freed after the last. On a device, the
  /// instructions are launched one by one. The allocator returns memory that the plan's device can use, and
  /// outlives the plan.
  Allocator* allocator = nullptr;
  /// On a device, for a sub-plan that runs within a kernel of another plan: the module of the outer plan.
  cuda::KernelModule* module = nullptr;
};

/// An executable graph. Construction allocates; `bind` and `run` do not.
class Plan {
 public:
  /// `graph` is kept for its bound tensors and must not change afterwards. Throws the same errors as the
  /// preparation of the kernels.
  explicit Plan(const Graph& graph, const PlanOptions& options = {});
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  size_t arena_bytes() const { return program_.report.arena_bytes; }
  const PlanReport& report() const { return program_.report; }
  /// Fixes the arena's address (64-byte aligned, `arena_bytes` long).
  void bind_arena(std::byte* arena);
  /// Sets the address of input `index`; cheap when unchanged. Throws kInvalidArgument for the memory of a
  /// variable that the plan updates, because the step would read a mix of old and new values.
  void bind_input(size_t index, std::byte* address) {
    if (program_.inputs[index] != address) [[unlikely]]
      program_.bind_input(index, address);
  }
  /// Runs every kernel in order on the calling thread; on a device, launches their recording and returns. All
  /// inputs and the arena must be bound.
  void run() {
    if (executor_ || tracing()) [[unlikely]]
      return run_elsewhere();
    program_.run();
  }
  /// Creates the kernels' trace names (core/telemetry/trace.h), which the first traced run would otherwise
  /// create.
  void name_kernels();
  /// Like `run`, but adds the nanoseconds of each instruction to `times_ns` (one entry per instruction). On a
  /// device, each instruction is launched alone to time it. Throws kUnsupported with options.allocator.
  void run_profiled(std::span<int64_t> times_ns);
  /// On a device: makes the recording that `run` launches, so that the first run needn't make it.
  void record();
  /// On a device: enqueues the work of every kernel in `stream`, which may be under capture.
  void enqueue(cuda::Stream stream) { executor_->enqueue(program_, stream); }
  /// Like `run`, but poisons dead buffers and checks red zones after each instruction (options.poison).
  void run_checked();
  /// The address of output `index` after `run`. Valid once the arena is bound.
  std::byte* output(size_t index) const { return program_.output_addresses[index]; }
  size_t instruction_count() const { return program_.steps.size(); }
  const Instruction& instruction(size_t index) const { return program_.instructions[index]; }
  /// The earlier instructions that instruction `index` waits for directly.
  std::vector<size_t> waits_for(size_t index) const {
    if (!program_.after.empty()) return program_.after[index];
    return index == 0 ? std::vector<size_t>() : std::vector<size_t>{index - 1};
  }

 private:
  void run_elsewhere();

  Program program_;
  std::unique_ptr<Executor> executor_;  // null: the program runs as it is
  std::vector<uint32_t> trace_names_;   // one per instruction; empty until tracing is used
  std::byte* arena_ = nullptr;
  bool arena_bound_ = false;
  const bool poison_;
};

}  // namespace isochron::graph
