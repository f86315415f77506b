#include "isochron/ops/control/scan.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/control/loop_layout.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/rows/subgraph.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {
namespace {

using graph::Capture;
using graph::Graph;
using graph::SubGraph;

std::vector<TensorSpec> infer_scan(const OpCall& call) {
  const ScanLayout layout(call.attributes);
  const auto& results = layout.graph().outputs();
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < layout.states; ++i) {
    require(results[i]->spec == call.inputs[i], ErrorCode::kShapeMismatch, call.op.name,
            "state {} is {} before the body and {} after it; a scan's state keeps its shape and dtype", i,
            call.inputs[i].str(), results[i]->spec.str());
    specs.push_back(call.inputs[i]);
  }
  for (size_t i = layout.states; i < results.size(); ++i) {
    specs.push_back(stacked_spec(results[i]->spec, layout.steps, call.op.name));
  }
  for (size_t i = 0; i < layout.states; ++i) {
    specs.push_back(stacked_spec(call.inputs[i], layout.steps, call.op.name));
  }
  return specs;
}

double scan_flops(const OpCall& call) {
  const ScanLayout layout(call.attributes);
  return static_cast<double>(layout.steps) * flops_of(layout.graph());
}

/// What the backward scan reads and carries, as positions in the forward op's inputs and outputs.
struct BackwardScan {
  BackwardScan(const GradientCall& call, const ScanLayout& layout) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (i < layout.states) {
        if (is_floating(call.inputs[i].dtype())) states.push_back(i);
      } else if (call.needed[i]) {
        (i < layout.first_captured() ? sequences : captured).push_back(i);
      }
    }
    for (size_t i = layout.states; i < call.outputs.size(); ++i) {
      if (!call.output_gradients[i].defined() || !is_floating(call.outputs[i].dtype())) continue;
      (i < layout.first_saved() ? outputs : saved).push_back(i);
    }
  }
  std::vector<size_t> states;     // states with a gradient; carried
  std::vector<size_t> captured;   // whose gradient is needed; carried as a sum
  std::vector<size_t> sequences;  // whose gradient is needed; stacked
  std::vector<size_t> outputs;    // outputs with a gradient
  std::vector<size_t> saved;      // stacked states with a gradient (higher derivatives only)
};

/// Undoes one step: repeats the body on the saved state and differentiates it. `slices`: index, saved states,
/// sequences, gradients of outputs and of saved states.
ScanStep undo_step(const GradientCall& call, const ScanLayout& layout, const BackwardScan& back,
                   std::span<const Tensor> carried, std::span<const Tensor> slices) {
  const size_t own = 1 + layout.first_captured();
  std::vector<Tensor> inputs(slices.begin(), slices.begin() + static_cast<std::ptrdiff_t>(own));
  inputs.insert(inputs.end(), call.inputs.begin() + static_cast<std::ptrdiff_t>(layout.first_captured()),
                call.inputs.end());
  const std::vector<Tensor> results = inline_graph(layout.graph(), inputs);
  std::vector<Tensor> targets;
  std::vector<Tensor> seeds(carried.begin(),
                            carried.begin() + static_cast<std::ptrdiff_t>(back.states.size()));
  std::vector<Tensor> sources;
  for (const size_t i : back.states) {
    targets.push_back(results[i]);
    sources.push_back(inputs[i + 1]);
  }
  for (size_t k = 0; k < back.outputs.size(); ++k) {
    targets.push_back(results[back.outputs[k]]);
    seeds.push_back(slices[own + k]);
  }
  for (const size_t i : back.captured) sources.push_back(inputs[i + 1]);
  for (const size_t i : back.sequences) sources.push_back(inputs[i + 1]);
  std::vector<Tensor> found = call.context.gradients(targets, seeds, sources);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = constant(zeros(sources[i].shape(), sources[i].dtype()));
  }
  for (size_t k = 0; k < back.saved.size(); ++k) {
    for (size_t j = 0; j < back.states.size(); ++j) {
      if (back.saved[k] != layout.first_saved() + back.states[j]) continue;
      found[j] = found[j] + slices[own + back.outputs.size() + k];
    }
  }
  for (size_t k = 0; k < back.captured.size(); ++k) {
    const size_t at = back.states.size() + k;
    found[at] = carried[at] + found[at];
  }
  const auto split_at = found.begin() + static_cast<std::ptrdiff_t>(carried.size());
  return {{found.begin(), split_at}, {split_at, found.end()}};
}

std::vector<Tensor> scan_gradient(const GradientCall& call) {
  const ScanLayout layout(call.attributes);
  const BackwardScan back(call, layout);
  std::vector<Tensor> initial;
  for (const size_t i : back.states) {
    const Tensor& gradient = call.output_gradients[i];
    initial.push_back(gradient.defined() ? gradient : constant(zeros_like(call.inputs[i])));
  }
  for (const size_t i : back.captured) initial.push_back(constant(zeros_like(call.inputs[i])));
  std::vector<Tensor> sequences{constant(arange(layout.steps))};
  for (size_t i = 0; i < layout.states; ++i) sequences.push_back(call.outputs[layout.first_saved() + i]);
  for (size_t i = layout.states; i < layout.first_captured(); ++i) sequences.push_back(call.inputs[i]);
  for (const size_t i : back.outputs) sequences.push_back(call.output_gradients[i]);
  for (const size_t i : back.saved) sequences.push_back(call.output_gradients[i]);
  const ScanResult found = isochron::scan(
      [&](std::span<const Tensor> carried, std::span<const Tensor> slices) {
        return undo_step(call, layout, back, carried, slices);
      },
      initial, sequences, {.reverse = !layout.reverse});
  std::vector<Tensor> result(call.inputs.size());
  size_t k = 0;
  for (const size_t i : back.states) result[i] = found.state[k++];
  for (const size_t i : back.captured) result[i] = found.state[k++];
  for (size_t s = 0; s < back.sequences.size(); ++s) result[back.sequences[s]] = found.outputs[s];
  return result;
}

}  // namespace

void register_scan(graph::Registry& registry) {
  OpDef op;
  op.name = "scan";
  op.summary = "a sub-graph carried over the rows of sequences";
  op.min_inputs = 0;
  op.max_inputs = -1;
  op.infer = infer_scan;
  op.gradient = scan_gradient;
  op.skippable_outputs = OpDef::kAllOutputs;
  op.flops = scan_flops;
  registry.add(std::move(op));
}

}  // namespace ops

namespace {

using graph::Capture;
using graph::Graph;

/// Traces the body on tensors with these specs. `outer` receives the outer values that it reads.
std::unique_ptr<Graph> trace_body(const ScanBody& body, const std::vector<Tensor>& initial,
                                  const std::vector<Tensor>& sequences, std::vector<graph::Value*>& outer) {
  auto graph = std::make_unique<Graph>();
  Capture capture(*graph);
  const Tensor index = Graph::tensor_of(graph->add_input({DType::kI64, {}}));
  capture.set_loop_index(index);
  std::vector<Tensor> state;
  std::vector<Tensor> slices;
  for (const Tensor& tensor : initial) state.push_back(Graph::tensor_of(graph->add_input(tensor.spec())));
  for (const Tensor& tensor : sequences) {
    slices.push_back(Graph::tensor_of(graph->add_input(ops::slice_spec(tensor.spec()))));
  }
  const ScanStep step = body(state, slices);
  require(step.state.size() == initial.size(), ErrorCode::kShapeMismatch, "scan",
          "the body gives {} tensors for a state of {}", step.state.size(), initial.size());
  ops::set_outputs(capture, step.state, "scan");
  ops::set_outputs(capture, step.outputs, "scan");
  outer = ops::outer_values(capture);
  return graph;
}

ScanResult captured_scan(Capture& capture, const ScanBody& body, const std::vector<Tensor>& initial,
                         const std::vector<Tensor>& sequences, int64_t steps, bool reverse) {
  static const graph::OpDef& op = ops::row("scan");
  std::vector<graph::Value*> outer;
  std::unique_ptr<Graph> graph = trace_body(body, initial, sequences, outer);
  const size_t results = graph->outputs().size();
  std::vector<Tensor> inputs = initial;
  inputs.insert(inputs.end(), sequences.begin(), sequences.end());
  for (graph::Value* value : outer) inputs.push_back(Graph::tensor_of(value));
  graph::Attributes attributes{{"states", static_cast<int64_t>(initial.size())},
                               {"sequences", static_cast<int64_t>(sequences.size())},
                               {"steps", steps},
                               {"reverse", reverse},
                               {"body", ops::as_loop_attribute(std::move(graph), op.name)}};
  const std::vector<Tensor> all = capture.record(op, inputs, std::move(attributes));
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(initial.size());
  return {{all.begin(), middle}, {middle, all.begin() + static_cast<std::ptrdiff_t>(results)}};
}

Tensor row_of(const Tensor& sequence, int64_t index) {
  return reshape(narrow(sequence, 0, index, 1), ops::slice_spec(sequence.spec()).shape);
}

/// The result of a scan of no steps. Tracing the body, without running it, gives the outputs' specs.
ScanResult scan_of_nothing(const ScanBody& body, const std::vector<Tensor>& initial,
                           const std::vector<Tensor>& sequences) {
  std::vector<graph::Value*> outer;
  const std::unique_ptr<Graph> graph = trace_body(body, initial, sequences, outer);
  ScanResult result{initial, {}};
  for (size_t i = initial.size(); i < graph->outputs().size(); ++i) {
    const TensorSpec spec = ops::stacked_spec(graph->outputs()[i]->spec, 0, "scan");
    result.outputs.push_back(zeros(spec.shape, spec.dtype));
  }
  return result;
}

ScanResult eager_scan(const ScanBody& body, const std::vector<Tensor>& initial,
                      const std::vector<Tensor>& sequences, int64_t steps, bool reverse) {
  if (steps == 0) return scan_of_nothing(body, initial, sequences);
  std::vector<Tensor> state = initial;
  std::vector<std::vector<Tensor>> rows;  // the rows of each output
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t at = reverse ? steps - 1 - s : s;
    std::vector<Tensor> slices;
    for (const Tensor& sequence : sequences) slices.push_back(row_of(sequence, at));
    ScanStep step = body(state, slices);
    require(step.state.size() == state.size(), ErrorCode::kShapeMismatch, "scan",
            "the body gives {} tensors for a state of {}", step.state.size(), state.size());
    for (size_t i = 0; i < state.size(); ++i) {
      require(step.state[i].defined() && step.state[i].spec() == state[i].spec(), ErrorCode::kShapeMismatch,
              "scan",
              "state {} is {} before the body and {} after it; a scan's state keeps its shape and dtype", i,
              state[i].spec().str(), step.state[i].defined() ? step.state[i].spec().str() : "undefined");
    }
    state = std::move(step.state);
    rows.resize(std::max(rows.size(), step.outputs.size()));
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      rows[i].resize(static_cast<size_t>(steps));
      rows[i][static_cast<size_t>(at)] = std::move(step.outputs[i]);
    }
  }
  ScanResult result{std::move(state), {}};
  for (const std::vector<Tensor>& output : rows) result.outputs.push_back(stack(output));
  return result;
}

}  // namespace

ScanResult scan(const ScanBody& body, const std::vector<Tensor>& initial,
                const std::vector<Tensor>& sequences, ScanOptions options) {
  int64_t steps = options.steps;
  require(steps >= -1, ErrorCode::kInvalidArgument, "scan", "steps must be >= 0, got {}", steps);
  require(body != nullptr, ErrorCode::kInvalidArgument, "scan", "the body is an empty function");
  for (const Tensor& tensor : initial) {
    require(tensor.defined(), ErrorCode::kInvalidArgument, "scan", "a state tensor is undefined");
  }
  for (const Tensor& tensor : sequences) {
    require(tensor.defined(), ErrorCode::kInvalidArgument, "scan", "a sequence is undefined");
    require(tensor.rank() >= 1, ErrorCode::kShapeMismatch, "scan", "a scalar is not a sequence");
    if (steps < 0) steps = tensor.extent(0);
    require(tensor.extent(0) == steps, ErrorCode::kShapeMismatch, "scan",
            "expected sequences of {} rows, got {}", steps, tensor.spec().str());
  }
  require(steps >= 0, ErrorCode::kInvalidArgument, "scan",
          "without sequences the number of steps must be given");
  if (Capture* capture = Capture::current()) {
    return captured_scan(*capture, body, initial, sequences, steps, options.reverse);
  }
  return eager_scan(body, initial, sequences, steps, options.reverse);
}

}  // namespace isochron
