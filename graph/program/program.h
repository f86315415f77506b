// What a plan runs, in order: the kernels and the addresses of their tensors. plan_builder.h makes a program
// from a graph; executors (executor.h) run it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/tensor/device.h"
#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/ir/buffer_kinds.h"
#include "isochron/graph/ir/kernel.h"

namespace isochron::graph {

/// One placed buffer, for reports and pictures.
struct PlannedBuffer {
  std::string owner;  // node that writes it, or "workspace of ..."
  int64_t lower = 0;  // live in [lower, upper), in instructions
  int64_t upper = 0;
  size_t size_bytes = 0;
  size_t offset = 0;
  BufferKind kind = BufferKind::kTemporary;
};

/// Describes one instruction of a plan, for profiles.
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
  int device_nodes = 0;      // nodes of the CUDA graph, once it is recorded
  Device device;
  bool tf32 = false;  // f32 products on the device use TF32 on tensor cores
  std::vector<PlannedBuffer> buffers;
  double arena_ratio() const {
    return lower_bound_bytes ? static_cast<double>(arena_bytes) / static_cast<double>(lower_bound_bytes)
                             : 1.0;
  }
};

/// The tables don't change once the program is built, with two exceptions: `after` is cleared if running in
/// order turns out to be faster, and addresses change when the arena or an input moves.
struct Program {
  struct Step {
    Kernel* kernel;
    KernelArgs args;
  };
  struct Patch {  // a pointer into a buffer
    size_t slot;
    size_t buffer;
    size_t offset = 0;  // in the buffer
  };

  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<Step> steps;
  std::vector<Instruction> instructions;   // what each step does
  std::vector<std::vector<size_t>> after;  // per step, the steps that it waits for; empty: in order
  std::vector<std::byte*> pointers;        // all args, sliced by steps
  std::vector<Patch> arena_patches;
  std::vector<Patch> workspace_patches;          // of steps
  std::vector<std::vector<size_t>> input_slots;  // input -> positions in pointers
  std::vector<std::vector<size_t>> input_steps;  // input -> steps to bind again
  std::vector<std::byte*> inputs;
  std::vector<size_t> input_bytes;
  std::vector<size_t> output_offsets;
  std::vector<std::byte*> output_addresses;
  std::vector<Ref<Storage>> kept;                   // bound storages
  std::vector<std::span<const std::byte>> updated;  // memory of the variables that a run updates
  size_t copies_begin = 0;                          // the first step that only moves results
  PlanReport report;

  /// Fixes all addresses in the arena.
  void bind_arena(std::byte* arena);
  /// Fixes the address of an input. Throws kInvalidArgument for the memory of a variable that is updated.
  void bind_input(size_t index, std::byte* address);
  /// Runs every step in order on the calling thread.
  void run() {
    for (size_t i = 0; i < steps.size(); ++i) run_step(i);
  }
  /// Runs one step. An error of its kernel names the module path of the kernel's node: "[emb/gather]".
  void run_step(size_t i) {
    try {
      steps[i].kernel->run(steps[i].args);
    } catch (const Error& error) {
      throw_located(error, instructions[i]);
    }
  }

 private:
  [[noreturn]] static void throw_located(const Error& error, const Instruction& instruction);
};

}  // namespace isochron::graph
