// From graph to something that runs: kernels prepared, buffers placed in one arena, addresses bound.
// A plan of a sub-graph lives inside its parent's arena (the parent kernel's workspace).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/telemetry/trace.h"
#include "isochron/graph/ir/backend.h"
#include "isochron/graph/ir/buffer_kinds.h"
#include "isochron/graph/ir/graph.h"

namespace isochron {
class Allocator;
}
namespace isochron::cuda {
class Context;
class KernelModule;
}  // namespace isochron::cuda

namespace isochron::graph {

class DeviceReplay;

struct PlanOptions {
  int threads = 0;  // 0: compute_threads()
  bool poison =
      false;  // debug: fill buffers with NaN bytes once they are dead, and red zones between them, and check
  /// Debug: the first kernel whose floating result holds NaN or infinity throws kNotANumber
  /// (graph/ir/checked_kernel.h); on the CPU also within loops and branches. On a device the kernels are
  /// launched one by one then. A captured function makes each op a kernel then:
  /// CaptureOptions::check_numerics.
  bool check_numerics = false;
  /// Where it runs. Variables must live there; constants are copied. Each op needs a kernel for it
  /// (kUnsupported names those that have none); poison and memory budgets are the CPU's alone so far.
  Device device = {};
  /// What runs it; null: the device's.
  const Backend* backend = nullptr;
  /// On a device: Precision::kTf32. A captured function sets it.
  bool tf32 = false;
  /// On a device: instructions that don't need each other's results and share no memory may run side by side.
  bool side_by_side = true;
  /// For comparison with frameworks that don't plan memory: every buffer but results is taken from it by the
  /// first instruction that uses it and given back after the last, at every run; on a device the instructions
  /// are launched one by one. Hands out what the plan's device can use, and outlives the plan.
  Allocator* allocator = nullptr;
  /// On a device, of a plan that is a part of another's kernel: that one's module.
  cuda::KernelModule* module = nullptr;
};

/// One placed buffer, for reports and pictures.
struct PlannedBuffer {
  std::string owner;  // node that writes it, or "workspace of ..."
  int64_t lower = 0;  // live in [lower, upper), in instructions
  int64_t upper = 0;
  size_t size_bytes = 0;
  size_t offset = 0;
  BufferKind kind = BufferKind::kTemporary;
};

/// What one instruction of a plan does, for profiles.
struct Instruction {
  std::string name;    // of its node, or "copy of output"
  std::string op;      // of its node; empty for a copy
  double flops = 0;    // as the op's row counts them
  double bytes = 0;    // read and written
  std::string shapes;  // of its inputs
};

struct PlanReport {
  size_t nodes = 0;
  size_t instructions = 0;
  size_t arena_bytes = 0;
  size_t lower_bound_bytes = 0;
  size_t alignment_waste_bytes = 0;
  size_t bound_bytes = 0;       // variables and constants referred to
  size_t activation_bytes = 0;  // see graph/passes/precision.h
  int updates_in_place = 0;
  int updates_copied = 0;
  double flops = 0;
  int64_t peak_instruction = 0;
  size_t longest_chain = 0;  // instructions that must run one after another
  Device device;
  std::vector<PlannedBuffer> buffers;
  double arena_ratio() const {
    return lower_bound_bytes ? static_cast<double>(arena_bytes) / static_cast<double>(lower_bound_bytes)
                             : 1.0;
  }
};

/// An executable graph. Construction allocates; `bind` and `run` do not.
class Plan {
 public:
  /// `graph` is kept for its bound tensors and must not change afterwards. Throws as kernels' preparation
  /// does.
  explicit Plan(const Graph& graph, const PlanOptions& options = {});
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  size_t arena_bytes() const { return report_.arena_bytes; }
  const PlanReport& report() const { return report_; }
  /// Fixes the arena's address (64-byte aligned, `arena_bytes` long).
  void bind_arena(std::byte* arena);
  /// Fixes the address of input `index`; cheap when unchanged. Throws kInvalidArgument for the memory of a
  /// variable that the plan updates: the step would read it half old, half new.
  void bind_input(size_t index, std::byte* address) {
    if (inputs_[index] != address) [[unlikely]]
      rebind_input(index, address);
  }
  /// Runs every kernel in order on the calling thread; on a device, launches what was recorded of them and
  /// returns. All inputs and the arena must be bound.
  void run() {
    if (replay_ || unplanned_ || tracing()) [[unlikely]]
      return run_elsewhere();
    run_plainly();
  }
  /// Makes the names by which kernels are traced (core/telemetry/trace.h), as the first traced run would.
  void name_kernels();
  /// As `run`, with the nanoseconds of each instruction added to `times_ns` (one entry an instruction). On a
  /// device they are its own, each instruction launched alone. Throws kUnsupported with options.allocator.
  void run_profiled(std::span<int64_t> times_ns);
  /// On a device: records what `run` would launch, so that it needn't.
  void record();
  /// On a device: puts every kernel's work in `stream`, which may be under capture.
  void enqueue(cuda::Stream stream);
  /// As `run`, poisoning dead buffers and checking red zones after each instruction (options.poison).
  void run_checked();
  /// Where output `index` is found after `run`. Valid once the arena is bound.
  std::byte* output(size_t index) const { return output_addresses_[index]; }
  size_t instruction_count() const { return steps_.size(); }
  const Instruction& instruction(size_t index) const { return instructions_[index]; }

 private:
  friend class PlanBuilder;
  struct Step {
    Kernel* kernel;
    KernelArgs args;
  };
  struct Patch {  // a pointer into a buffer
    size_t slot;
    size_t buffer;
  };
  struct Unplanned;
  void rebind_input(size_t index, std::byte* address);
  void run_plainly() {
    for (const Step& step : steps_) step.kernel->run(step.args);
  }
  void run_elsewhere();
  void enqueue_side_by_side(cuda::Stream stream);
  void run_unplanned();
  void run_traced();
  void profile_on_device(std::span<int64_t> times_ns);

  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Step> steps_;
  std::vector<Instruction> instructions_;
  std::vector<uint32_t> trace_names_;  // one an instruction; empty until somebody traces
  std::vector<std::byte*> pointers_;   // all args, sliced by steps
  std::vector<Patch> arena_patches_;
  std::vector<Patch> workspace_patches_;          // of steps
  std::vector<std::vector<size_t>> input_slots_;  // input -> positions in pointers_
  std::vector<std::vector<size_t>> input_steps_;  // input -> steps to bind again
  std::vector<std::byte*> inputs_;
  std::vector<size_t> input_bytes_;
  std::vector<size_t> output_offsets_;
  std::vector<std::byte*> output_addresses_;
  std::vector<Ref<Storage>> kept_;                   // bound storages
  std::vector<std::span<const std::byte>> updated_;  // memory of the variables that a run updates
  size_t copies_begin_ = 0;                          // the first step that only moves results
  std::byte* arena_ = nullptr;
  bool arena_bound_ = false;
  PlanReport report_;
  bool poison_ = false;
  bool looks_ = false;                    // check_numerics
  std::unique_ptr<Unplanned> unplanned_;  // options.allocator
  // On a device alone.
  std::unique_ptr<cuda::KernelModule> module_;
  std::unique_ptr<DeviceReplay> replay_;
  cuda::Context* context_ = nullptr;
  std::vector<std::vector<size_t>> after_;  // of each instruction, those that it waits for
};

}  // namespace isochron::graph
