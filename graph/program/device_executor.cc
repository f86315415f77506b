#include "isochron/graph/program/device_executor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/cuda/kernel_module.h"

namespace isochron::graph {
namespace {

void put(Program::Step& step, cuda::Stream stream) {
  step.args.stream = stream;
  step.kernel->run(step.args);
}

bool launch_blocking() {
  const char* const set = std::getenv("CUDA_LAUNCH_BLOCKING");
  return set != nullptr && *set != 0 && std::string_view(set) != "0";
}

}  // namespace

DeviceExecutor::DeviceExecutor(std::shared_ptr<cuda::Gpu> gpu, std::unique_ptr<cuda::KernelModule> module,
                               bool one_by_one)
    : gpu_(std::move(gpu)),
      module_(std::move(module)),
      blocking_(launch_blocking()),
      one_by_one_(one_by_one || blocking_),
      replay_(std::make_unique<DeviceReplay>(gpu_)) {}

DeviceExecutor::~DeviceExecutor() = default;

void DeviceExecutor::run(Program& program) {
  if (one_by_one_) return enqueue(program, gpu_->stream());
  if (trial_) end_trial(program);
  const bool copied =
      replay_->recordings() >= kMaxRecordings && replay_->find(program.inputs) == cuda::GraphExec::kNone;
  if (copied) copy_inputs(program);
  const Recorded found = recorded(program, copied ? copied_ : program.inputs);
  cuda::Context& context = gpu_->context();
  if (trial_ && trial_->goes_on()) {
    trial_->begin();
    context.launch(trial_->in_order() ? found.in_order : found.graph, gpu_->stream());
    trial_->end();
  } else {
    context.launch(found.graph, gpu_->stream());
  }
  program.report.device_nodes = replay_->counts().total();
}

void DeviceExecutor::record(Program& program) {
  if (!one_by_one_) recorded(program, program.inputs);
}

void DeviceExecutor::forget() {
  replay_->forget();
  if (in_order_) in_order_->forget();
}

/// The recording of the steps for inputs at these addresses; makes it if there is none yet.
DeviceExecutor::Recorded DeviceExecutor::recorded(Program& program, std::span<std::byte* const> inputs) {
  if (!tried_ && program.report.longest_chain < program.steps.size()) {
    trial_ = std::make_unique<OrderTrial>(gpu_);
    in_order_ = std::make_unique<DeviceReplay>(gpu_);
  }
  tried_ = true;
  const auto recorded_by = [&](DeviceReplay& replay, bool in_order) {
    if (const cuda::GraphExec known = replay.find(inputs); known != cuda::GraphExec::kNone) return known;
    return replay.record(inputs, [&](cuda::Stream stream) {
      const std::vector<std::byte*> given = program.inputs;
      for (size_t i = 0; i < inputs.size(); ++i) program.bind_input(i, inputs[i]);
      in_order ? enqueue_in_order(program, stream) : enqueue(program, stream);
      for (size_t i = 0; i < given.size(); ++i) program.bind_input(i, given[i]);
    });
  };
  const cuda::GraphExec graph = recorded_by(*replay_, false);
  return {graph, in_order_ ? recorded_by(*in_order_, true) : graph};
}

/// Ends the trial and keeps the faster order, once the trial knows which one it is.
void DeviceExecutor::end_trial(Program& program) {
  const std::optional<bool> in_order = trial_->in_order_is_faster();
  if (!in_order) return;
  if (*in_order) {
    std::swap(replay_, in_order_);
    program.after.clear();
    program.report.longest_chain = program.steps.size();
  }
  in_order_->forget_idle();
  in_order_.reset();
  trial_.reset();
}

void DeviceExecutor::copy_inputs(Program& program) {
  if (copied_.empty()) {
    std::vector<Ref<Storage>> copies;
    for (const size_t bytes : program.input_bytes) copies.push_back(gpu_->allocate(bytes, "copied input"));
    copies_ = std::move(copies);
    for (const Ref<Storage>& copy : copies_) copied_.push_back(copy->data());
  }
  for (size_t i = 0; i < copied_.size(); ++i)
    cuda::copy_within(gpu_->context(), copied_[i], program.inputs[i], program.input_bytes[i], gpu_->stream());
}

void DeviceExecutor::enqueue(Program& program, cuda::Stream stream) {
  const bool capturing = gpu_->context().capturing(stream);
  if (!program.after.empty() && capturing) return enqueue_side_by_side(program, stream);
  if (blocking_ && !capturing) return run_blocking(program, stream);
  enqueue_in_order(program, stream);
}

void DeviceExecutor::enqueue_in_order(Program& program, cuda::Stream stream) {
  for (Program::Step& step : program.steps) put(step, stream);
}

void DeviceExecutor::run_blocking(Program& program, cuda::Stream stream) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    try {
      put(program.steps[i], stream);
      gpu_->context().synchronize(stream);
    } catch (const Error& error) {
      const Instruction& instruction = program.instructions[i];
      fail(error.code(), "cuda", "instruction {}, {} ({}) of {}: {}", i, instruction.name, instruction.op,
           instruction.shapes, error.what());
    }
  }
}

/// Each instruction follows the instructions that it waits for. Work after the plan follows all instructions
/// that have no successor.
void DeviceExecutor::enqueue_side_by_side(Program& program, cuda::Stream stream) {
  cuda::Context& context = gpu_->context();
  using Nodes = std::vector<cuda::GraphNode>;
  const Nodes before = context.followed(stream);
  std::vector<Nodes> ends(program.steps.size());
  std::vector<bool> open(program.steps.size(), true);
  const auto follow = [&](Nodes nodes) {
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    context.follow(stream, nodes);
  };
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Nodes nodes = program.after[i].empty() ? before : Nodes();
    for (const size_t step : program.after[i]) {
      nodes.insert(nodes.end(), ends[step].begin(), ends[step].end());
      open[step] = false;
    }
    follow(std::move(nodes));
    put(program.steps[i], stream);
    ends[i] = context.followed(stream);
  }
  Nodes last;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (open[i]) last.insert(last.end(), ends[i].begin(), ends[i].end());
  }
  follow(std::move(last));
}

/// Launches each step alone to time it.
void DeviceExecutor::profile(Program& program, std::span<int64_t> times_ns) {
  cuda::Context& context = gpu_->context();
  const cuda::Stream stream = gpu_->stream();
  const cuda::Event begin = context.create_event(true), end = context.create_event(true);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    context.record(begin, stream);
    put(program.steps[i], stream);
    context.record(end, stream);
    context.synchronize(end);
    times_ns[i] += std::llround(context.elapsed_ns(begin, end));
  }
  context.destroy(begin);
  context.destroy(end);
}

}  // namespace isochron::graph
