#include "isochron/ops/control/control.h"

#include <algorithm>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/ops/control/loop_layout.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/rows/subgraph.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::SubGraph;
using graph::Value;

void require_predicate(const OpCall& call, const TensorSpec& spec, std::string_view what) {
  require(spec.dtype == DType::kBool && spec.shape.elems() == 1, ErrorCode::kDtypeMismatch, call.op.name,
          "{} must be one bool, got {}", what, spec.str());
}

// --- cond: inputs [predicate, captured...] ---

std::vector<TensorSpec> infer_cond(const OpCall& call) {
  require_predicate(call, call.inputs[0], "the predicate");
  const auto then = call.attributes.object<SubGraph>("then");
  const auto otherwise = call.attributes.object<SubGraph>("else");
  const auto& a = then->graph->outputs();
  const auto& b = otherwise->graph->outputs();
  require(a.size() == b.size(), ErrorCode::kShapeMismatch, call.op.name,
          "the branches give {} and {} tensors", a.size(), b.size());
  std::vector<TensorSpec> outputs;
  for (size_t i = 0; i < a.size(); ++i) {
    require(a[i]->spec == b[i]->spec, ErrorCode::kShapeMismatch, call.op.name,
            "result {} is {} in one branch, {} in "
            "the other",
            i, a[i]->spec.str(), b[i]->spec.str());
    outputs.push_back(a[i]->spec);
  }
  return outputs;
}

/// The gradients within one branch: repeats the branch's nodes and differentiates them. Inputs that the
/// branch doesn't depend on get zeros.
std::vector<Tensor> branch_gradient(const GradientCall& call, const char* branch,
                                    std::span<const size_t> wanted) {
  const std::vector<Tensor> inputs(call.inputs.begin() + 1, call.inputs.end());
  const std::vector<Tensor> outputs = inline_graph(*call.attributes.object<SubGraph>(branch)->graph, inputs);
  std::vector<Tensor> targets;
  std::vector<Tensor> seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!call.output_gradients[i].defined() || !is_floating(outputs[i].dtype())) continue;
    targets.push_back(outputs[i]);
    seeds.push_back(call.output_gradients[i]);
  }
  std::vector<Tensor> sources;
  for (size_t i : wanted) sources.push_back(call.inputs[i]);
  std::vector<Tensor> results = call.context.gradients(targets, seeds, sources);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) results[i] = constant(zeros_like(sources[i]));
  }
  return results;
}

std::vector<Tensor> cond_gradient(const GradientCall& call) {
  std::vector<size_t> wanted;
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.needed[i]) wanted.push_back(i);
  }
  const std::vector<Tensor> found =
      isochron::cond(call.inputs[0], BranchFunction([&] { return branch_gradient(call, "then", wanted); }),
                     BranchFunction([&] { return branch_gradient(call, "else", wanted); }));
  std::vector<Tensor> result(call.inputs.size());
  for (size_t k = 0; k < wanted.size(); ++k) result[wanted[k]] = found[k];
  return result;
}

double cond_flops(const OpCall& call) {
  return std::max(flops_of(*call.attributes.object<SubGraph>("then")->graph),
                  flops_of(*call.attributes.object<SubGraph>("else")->graph));
}

// --- while_loop: inputs [state..., captured...]; sub-graph inputs [iteration, state..., captured...];
//     outputs [state..., iterations, a stack of each state if bounded] ---

std::vector<TensorSpec> infer_while(const OpCall& call) {
  const size_t states = while_states(call.attributes);
  const Graph& condition = *call.attributes.object<SubGraph>("condition")->graph;
  const Graph& body = *call.attributes.object<SubGraph>("body")->graph;
  require_predicate(call, condition.outputs().at(0)->spec, "the condition");
  require(body.outputs().size() == states, ErrorCode::kShapeMismatch, call.op.name,
          "the body gives {} tensors for a state of {}", body.outputs().size(), states);
  std::vector<TensorSpec> outputs;
  for (size_t i = 0; i < states; ++i) {
    require(body.outputs()[i]->spec == call.inputs[i], ErrorCode::kShapeMismatch, call.op.name,
            "state {} is {} before the body and {} after it; a loop's state keeps its shape and dtype", i,
            call.inputs[i].str(), body.outputs()[i]->spec.str());
    outputs.push_back(call.inputs[i]);
  }
  outputs.push_back({DType::kI64, {}});
  const int64_t bound = while_bound(call.attributes);
  for (size_t i = 0; bound >= 0 && i < states; ++i)
    outputs.push_back(stacked_spec(call.inputs[i], bound, call.op.name));
  return outputs;
}

/// The state of the backward loop. Position 0 is the number of iterations that are still to be undone.
struct BackwardLayout {
  std::vector<size_t> states;    // forward states with a gradient
  std::vector<size_t> captured;  // other forward inputs whose gradient is needed
};

BackwardLayout backward_layout(const GradientCall& call, size_t states) {
  BackwardLayout layout;
  for (size_t i = 0; i < states; ++i) {
    if (is_floating(call.inputs[i].dtype())) layout.states.push_back(i);
  }
  for (size_t i = states; i < call.inputs.size(); ++i) {
    if (call.needed[i]) layout.captured.push_back(i);
  }
  return layout;
}

Tensor stack_row(const Tensor& stack, const Tensor& index) {
  static const OpDef& op = row("stack_row");
  return graph::apply_one(op, {stack, index});
}

/// Undoes one iteration: repeats the body on the saved state and differentiates it.
std::vector<Tensor> undo_iteration(const GradientCall& call, size_t states, const BackwardLayout& layout,
                                   std::span<const Tensor> carried) {
  const Tensor index = carried[0] - 1.0;
  std::vector<Tensor> inputs{index};
  for (size_t i = 0; i < states; ++i) inputs.push_back(stack_row(call.outputs[states + 1 + i], index));
  inputs.insert(inputs.end(), call.inputs.begin() + static_cast<std::ptrdiff_t>(states), call.inputs.end());
  const std::vector<Tensor> outputs = inline_graph(*call.attributes.object<SubGraph>("body")->graph, inputs);
  std::vector<Tensor> targets;
  std::vector<Tensor> sources;
  for (size_t i : layout.states) {
    targets.push_back(outputs[i]);
    sources.push_back(inputs[i + 1]);
  }
  for (size_t i : layout.captured) sources.push_back(call.inputs[i]);
  const std::vector<Tensor> seeds(carried.begin() + 1,
                                  carried.begin() + 1 + static_cast<std::ptrdiff_t>(layout.states.size()));
  const std::vector<Tensor> found = call.context.gradients(targets, seeds, sources);
  std::vector<Tensor> next{index};
  for (size_t k = 0; k < found.size(); ++k) {
    const Tensor& before = carried[k + 1];
    if (k < layout.states.size()) {
      Tensor total = found[k].defined() ? found[k] : constant(zeros_like(before));
      // With higher derivatives, the saved state itself has a gradient too.
      const Tensor& saved = call.output_gradients[states + 1 + layout.states[k]];
      if (saved.defined()) total = total + stack_row(saved, index);
      next.push_back(total);
    } else {
      next.push_back(found[k].defined() ? before + found[k] : before);
    }
  }
  return next;
}

std::vector<Tensor> while_gradient(const GradientCall& call) {
  const size_t states = while_states(call.attributes);
  const int64_t bound = while_bound(call.attributes);
  require(bound >= 0, ErrorCode::kUnsupported, call.op.name,
          "reverse mode needs max_iterations, the number of states to keep room for");
  const BackwardLayout layout = backward_layout(call, states);
  std::vector<Tensor> initial{call.outputs[states]};
  for (size_t i : layout.states) {
    const Tensor& gradient = call.output_gradients[i];
    initial.push_back(gradient.defined() ? gradient : constant(zeros_like(call.inputs[i])));
  }
  for (size_t i : layout.captured) initial.push_back(constant(zeros_like(call.inputs[i])));
  const std::vector<Tensor> final = isochron::while_loop(
      [](std::span<const Tensor> carried) { return carried[0] > 0.0; },
      [&](std::span<const Tensor> carried) { return undo_iteration(call, states, layout, carried); }, initial,
      {.max_iterations = bound});
  std::vector<Tensor> result(call.inputs.size());
  size_t k = 1;
  for (size_t i : layout.states) result[i] = final[k++];
  for (size_t i : layout.captured) result[i] = final[k++];
  return result;
}

// --- stack_row: one row of a stack at an index known only at run time ---

std::vector<TensorSpec> infer_stack_row(const OpCall& call) {
  require_min_rank(call, 0, 1);
  require_dtype(call, 1, DType::kI64);
  require(call.inputs[1].shape.elems() == 1, ErrorCode::kShapeMismatch, call.op.name,
          "the index must be one number, "
          "got {}",
          call.inputs[1].str());
  const Shape& stack = call.inputs[0].shape;
  return {{call.inputs[0].dtype, Shape(stack.span().subspan(1))}};
}

/// Used only in second derivatives of bounded loops: places the gradient into a stack of zeros.
std::vector<Tensor> stack_row_gradient(const GradientCall& call) {
  const Tensor& stack = call.inputs[0];
  const Tensor rows = constant(arange(stack.extent(0), DType::kI64));
  Tensor chosen = equal(rows, reshape(call.inputs[1], {1}));
  Shape column{stack.extent(0)};
  for (int i = 1; i < stack.rank(); ++i) column.push_back(1);
  return {where(reshape(chosen, column), call.output_gradients[0], scalar(0, stack.dtype())), Tensor()};
}

std::vector<std::vector<double>> stack_row_reference(const OpCall&, std::span<const TensorSpec> outputs,
                                                     const std::vector<std::vector<double>>& inputs) {
  const size_t size = static_cast<size_t>(outputs[0].shape.elems());
  const auto first =
      inputs[0].begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(inputs[1][0]) * size);
  return {std::vector<double>(first, first + static_cast<std::ptrdiff_t>(size))};
}

}  // namespace

void register_control(graph::Registry& registry) {
  OpDef cond_op;
  cond_op.name = "cond";
  cond_op.summary = "one of two sub-graphs, chosen at run time";
  cond_op.max_inputs = -1;
  cond_op.infer = infer_cond;
  cond_op.gradient = cond_gradient;
  cond_op.flops = cond_flops;
  registry.add(std::move(cond_op));

  OpDef while_op;
  while_op.name = "while_loop";
  while_op.summary = "a sub-graph repeated on its own state";
  while_op.max_inputs = -1;
  while_op.infer = infer_while;
  while_op.gradient = while_gradient;
  while_op.skippable_outputs = OpDef::kAllOutputs;
  registry.add(std::move(while_op));

  OpDef row_op;
  row_op.name = "stack_row";
  row_op.summary = "one row of a stack, at an index known at run time";
  row_op.min_inputs = row_op.max_inputs = 2;
  row_op.infer = infer_stack_row;
  row_op.gradient = stack_row_gradient;
  row_op.reference = stack_row_reference;
  row_op.differentiable = {0};
  row_op.samples = {{{{{4, 3}}, {{}, 0, 0, DType::kI64, {2}}}},
                    {{{{2, 2, 5}}, {{1}, 0, 0, DType::kI64, {1}}}}};
  row_op.errors = {{{{DType::kF32, {}}, {DType::kI64, {}}}, {}, ErrorCode::kShapeMismatch},
                   {{{DType::kF32, {3}}, {DType::kF32, {}}}, {}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(row_op));
}

}  // namespace ops

namespace {

using graph::Capture;
using graph::Graph;

bool read_predicate(const Tensor& predicate, std::string_view where) {
  require(predicate.defined() && predicate.dtype() == DType::kBool && predicate.elems() == 1,
          ErrorCode::kDtypeMismatch, where, "the predicate must be one bool, got {}",
          predicate.defined() ? predicate.spec().str() : "an undefined tensor");
  return predicate.item<bool>();
}

std::unique_ptr<Graph> trace_branch(const BranchFunction& function, std::vector<graph::Value*>& outer) {
  auto graph = std::make_unique<Graph>();
  Capture capture(*graph);
  for (graph::Value* value : outer) capture.adopt(value);
  ops::set_outputs(capture, function(), "cond");
  outer = ops::outer_values(capture);
  return graph;
}

/// Adds the inputs that a later sub-graph needed, so that both sub-graphs have the same list of inputs.
void add_missing_inputs(Graph& graph, size_t own, const std::vector<graph::Value*>& outer) {
  for (size_t i = graph.inputs().size() - own; i < outer.size(); ++i) graph.add_input(outer[i]->spec);
}

std::unique_ptr<Graph> trace_loop_part(const LoopFunction& function, std::span<const Tensor> initial,
                                       std::vector<graph::Value*>& outer) {
  auto graph = std::make_unique<Graph>();
  Capture capture(*graph);
  const Tensor index = Graph::tensor_of(graph->add_input({DType::kI64, {}}));
  capture.set_loop_index(index);
  std::vector<Tensor> state;
  for (const Tensor& tensor : initial) state.push_back(Graph::tensor_of(graph->add_input(tensor.spec())));
  for (graph::Value* value : outer) capture.adopt(value);
  ops::set_outputs(capture, function(state), "while_loop");
  outer = ops::outer_values(capture);
  return graph;
}

std::vector<Tensor> captured_while(Capture& capture, const LoopCondition& condition, const LoopFunction& body,
                                   const std::vector<Tensor>& initial, int64_t max_iterations) {
  static const graph::OpDef& op = ops::row("while_loop");
  std::vector<graph::Value*> outer;
  auto condition_graph = trace_loop_part(
      [&condition](std::span<const Tensor> state) { return std::vector<Tensor>{condition(state)}; }, initial,
      outer);
  auto body_graph = trace_loop_part(body, initial, outer);
  add_missing_inputs(*condition_graph, 1 + initial.size(), outer);
  std::vector<Tensor> inputs = initial;
  for (graph::Value* value : outer) inputs.push_back(Graph::tensor_of(value));
  graph::Attributes attributes;
  attributes.set("states", static_cast<int64_t>(initial.size()));
  attributes.set("max_iterations", max_iterations);
  attributes.set("condition", ops::as_loop_attribute(std::move(condition_graph), op.name));
  attributes.set("body", ops::as_loop_attribute(std::move(body_graph), op.name));
  std::vector<Tensor> results = capture.record(op, inputs, std::move(attributes));
  results.resize(initial.size());
  return results;
}

}  // namespace

std::vector<Tensor> cond(const Tensor& predicate, const BranchFunction& then,
                         const BranchFunction& otherwise) {
  static const graph::OpDef& op = ops::row("cond");
  require(then && otherwise, ErrorCode::kInvalidArgument, op.name, "a branch is an empty function");
  Capture* capture = Capture::current();
  if (!capture) return read_predicate(predicate, "cond") ? then() : otherwise();
  std::vector<graph::Value*> outer;
  auto then_graph = trace_branch(then, outer);
  auto else_graph = trace_branch(otherwise, outer);
  add_missing_inputs(*then_graph, 0, outer);
  std::vector<Tensor> inputs{predicate};
  for (graph::Value* value : outer) inputs.push_back(Graph::tensor_of(value));
  graph::Attributes attributes;
  attributes.set("then", ops::as_loop_attribute(std::move(then_graph), op.name));
  attributes.set("else", ops::as_loop_attribute(std::move(else_graph), op.name));
  return capture->record(op, inputs, std::move(attributes));
}

Tensor cond(const Tensor& predicate, const std::function<Tensor()>& then,
            const std::function<Tensor()>& otherwise) {
  require(then && otherwise, ErrorCode::kInvalidArgument, "cond", "a branch is an empty function");
  return cond(predicate, BranchFunction([&] { return std::vector<Tensor>{then()}; }),
              BranchFunction([&] { return std::vector<Tensor>{otherwise()}; }))[0];
}

std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopFunction& body,
                               const std::vector<Tensor>& initial, WhileOptions options) {
  require(!initial.empty(), ErrorCode::kInvalidArgument, "while_loop", "the state is empty");
  require(condition && body, ErrorCode::kInvalidArgument, "while_loop",
          "the condition or the body is an empty function");
  require(options.max_iterations >= -1, ErrorCode::kInvalidArgument, "while_loop",
          "max_iterations must be >= 0, or -1 for no bound, got {}", options.max_iterations);
  for (const Tensor& tensor : initial) {
    require(tensor.defined(), ErrorCode::kInvalidArgument, "while_loop", "a state tensor is undefined");
  }
  if (Capture* capture = Capture::current()) {
    return captured_while(*capture, condition, body, initial, options.max_iterations);
  }
  std::vector<Tensor> state = initial;
  for (int64_t i = 0; options.max_iterations < 0 || i < options.max_iterations; ++i) {
    if (!read_predicate(condition(state), "while_loop")) break;
    std::vector<Tensor> next = body(state);
    require(next.size() == state.size(), ErrorCode::kShapeMismatch, "while_loop",
            "the body gives {} tensors for a state of {}", next.size(), state.size());
    for (size_t k = 0; k < next.size(); ++k) {
      require(next[k].defined() && next[k].spec() == state[k].spec(), ErrorCode::kShapeMismatch, "while_loop",
              "state {} is {} before the body and {} after it; a loop's state keeps its shape and dtype", k,
              state[k].spec().str(), next[k].defined() ? next[k].spec().str() : "undefined");
    }
    state = std::move(next);
  }
  return state;
}

}  // namespace isochron
