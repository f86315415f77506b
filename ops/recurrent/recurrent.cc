// Rows of the recurrent ops: shape rules, gradients, and one step in elementary ops.
#include "isochron/ops/recurrent/recurrent.h"

#include <algorithm>

#include "isochron/core/base/checked.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/recurrent/recurrent_decomposition.h"
#include "isochron/ops/recurrent/recurrent_layout.h"
#include "isochron/ops/recurrent/recurrent_reference.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/rows/subgraph.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {

RecurrentLayout::RecurrentLayout(const OpDef& op, const Attributes& attributes)
    : lstm(op.name.starts_with("lstm")),
      gradient(op.name.ends_with("_gradient")),
      initial_state(attributes.get<bool>("initial_state")),
      lengths(attributes.get<bool>("lengths")) {
  if (gradient) seeds = attributes.get<Dims>("seeds");
}

std::optional<size_t> RecurrentLayout::seed(size_t output) const {
  for (int i = 0; i < seeds.rank(); ++i) {
    if (seeds[i] == static_cast<int64_t>(output)) return static_cast<size_t>(i);
  }
  return std::nullopt;
}

namespace {

void require_shape(const OpCall& call, size_t index, const Shape& shape, std::string_view what) {
  require(call.inputs[index].shape == shape, ErrorCode::kShapeMismatch, call.op.name,
          "{} must have shape {}, got {}", what, shape.str(), call.inputs[index].str());
}

/// The specs of the forward op's outputs. The forward op's inputs begin at input `layout.first()` of the
/// call.
std::vector<TensorSpec> forward_specs(const OpCall& call, const RecurrentLayout& layout) {
  const TensorSpec& x = call.inputs[layout.x()];
  require_rank(call, layout.x(), 3);
  require_rank(call, layout.recurrent_kernel(), 2);
  require(x.dtype == DType::kF32 || x.dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "x must be f32 or f64, got {}; cast it", x.str());
  const int64_t gates = layout.lstm ? 4 : 3;
  const int64_t units = call.inputs[layout.recurrent_kernel()].shape[0];
  require(units >= 1, ErrorCode::kShapeMismatch, call.op.name, "there must be at least one unit");
  const int64_t columns = checked_mul(gates, units, call.op.name);
  require_shape(call, layout.recurrent_kernel(), {units, columns}, "the recurrent kernel");
  require_shape(call, layout.kernel(), {x.shape[2], columns}, "the kernel");
  require_shape(call, layout.bias(), layout.lstm ? Shape{columns} : Shape{2, columns}, "the bias");
  const Shape state{x.shape[0], units};
  for (size_t i = 0; i < layout.states(); ++i) {
    require_shape(call, layout.initial_hidden() + i, state, "the initial state");
  }
  for (size_t i = layout.x(); i < layout.initial_hidden() + layout.states(); ++i) {
    require(call.inputs[i].dtype == x.dtype, ErrorCode::kDtypeMismatch, call.op.name, "x is {}, input {} {}",
            x.str(), i, call.inputs[i].str());
  }
  if (layout.lengths) {
    const TensorSpec& lengths = call.inputs[layout.lengths_input()];
    require(lengths.dtype == DType::kI32 || lengths.dtype == DType::kI64, ErrorCode::kDtypeMismatch,
            call.op.name, "lengths must be i32 or i64, got {}", lengths.str());
    require_shape(call, layout.lengths_input(), {x.shape[0]}, "lengths");
  }
  const TensorSpec sequence{x.dtype, {x.shape[0], x.shape[1], units}};
  const TensorSpec gate_values{x.dtype, {x.shape[1], x.shape[0], checked_mul<int64_t>(4, units)}};
  if (!layout.lstm) return {sequence, {x.dtype, state}, gate_values};
  const TensorSpec cells{x.dtype, {x.shape[1], x.shape[0], units}};
  return {sequence, {x.dtype, state}, {x.dtype, state}, cells, gate_values};
}

void require_inputs(const OpCall& call, const RecurrentLayout& layout) {
  require(call.inputs.size() == layout.inputs(), ErrorCode::kInvalidArgument, call.op.name,
          "takes {} tensors with these attributes, got {}", layout.inputs(), call.inputs.size());
}

std::vector<TensorSpec> infer_recurrent(const OpCall& call) {
  const RecurrentLayout layout(call.op, call.attributes);
  require_inputs(call, layout);
  return forward_specs(call, layout);
}

std::vector<TensorSpec> infer_recurrent_gradient(const OpCall& call) {
  const RecurrentLayout layout(call.op, call.attributes);
  require_inputs(call, layout);
  const std::vector<TensorSpec> forward = forward_specs(call, layout);
  const auto require_spec = [&](size_t index, const TensorSpec& spec) {
    require_shape(call, index, spec.shape, "a seed or saved value");
    require_dtype(call, index, spec.dtype);
  };
  for (size_t i = 0; i < layout.first(); ++i) {
    const int64_t of = layout.seeds[static_cast<int>(i)];
    require(of >= 0 && of < static_cast<int64_t>(forward.size()), ErrorCode::kInvalidArgument, call.op.name,
            "there is no output {}", of);
    require_spec(i, forward[static_cast<size_t>(of)]);
  }
  require_spec(layout.saved_sequence(), forward[RecurrentLayout::kSequence]);
  require_spec(layout.saved_gates(), forward[layout.gates()]);
  if (layout.lstm) require_spec(layout.saved_cells(), forward[layout.cells()]);
  const auto first = call.inputs.begin() + static_cast<std::ptrdiff_t>(layout.first());
  return {first, first + static_cast<std::ptrdiff_t>(4 + layout.states())};
}

double recurrent_flops(const OpCall& call) {
  const RecurrentLayout layout(call.op, call.attributes);
  const Shape& x = call.inputs[layout.x()].shape;
  const Shape& kernel = call.inputs[layout.recurrent_kernel()].shape;
  const double products =
      static_cast<double>(x[0] * x[1]) * static_cast<double>((x[2] + kernel[0]) * kernel[1]);
  return (layout.gradient ? 4 : 2) * products;
}

std::vector<Tensor> recurrent_gradient(const GradientCall& call) {
  const RecurrentLayout layout(call.op, call.attributes);
  std::vector<Tensor> inputs;
  Dims seeds;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (!call.output_gradients[i].defined()) continue;
    seeds.push_back(static_cast<int64_t>(i));
    inputs.push_back(call.output_gradients[i]);
  }
  inputs.insert(inputs.end(), call.inputs.begin(), call.inputs.end());
  inputs.push_back(call.outputs[RecurrentLayout::kSequence]);
  inputs.push_back(call.outputs[layout.gates()]);
  if (layout.lstm) inputs.push_back(call.outputs[layout.cells()]);
  Attributes attributes = call.attributes;
  attributes.set("seeds", seeds);
  std::vector<Tensor> result =
      graph::apply(row(layout.lstm ? "lstm_gradient" : "gru_gradient"), inputs, std::move(attributes));
  result.resize(call.inputs.size());
  return result;
}

/// Records the gradient op as elementary ops in the current capture, and returns the gradients. The forward
/// op's results are recomputed from its inputs, so they get no gradient of their own.
std::vector<Tensor> unrolled_gradient(const GradientCall& call, const RecurrentLayout& layout,
                                      std::span<const Tensor> inputs) {
  const std::span<const Tensor> forward = inputs.subspan(layout.first(), layout.forward_inputs());
  const std::vector<Tensor> outputs =
      decompose_recurrent(layout, call.attributes.get<bool>("reverse"), forward);
  std::vector<Tensor> targets;
  for (const int64_t output : layout.seeds) targets.push_back(outputs[static_cast<size_t>(output)]);
  return call.context.gradients(targets, inputs.first(layout.first()), forward.first(call.outputs.size()));
}

/// Traces the gradient of the gradient op into `graph`, whose inputs are the op's inputs and then `seeds`.
/// Returns, for each output of the graph, the input of the op that it is the gradient of.
std::vector<size_t> trace_second_gradient(const GradientCall& call, graph::Graph& graph,
                                          std::vector<Tensor>& seeds) {
  const RecurrentLayout layout(call.op, call.attributes);
  graph::Capture capture(graph);
  const auto add_input = [&graph](const TensorSpec& spec) {
    return graph::Graph::tensor_of(graph.add_input(spec));
  };
  std::vector<Tensor> inputs;
  for (const Tensor& input : call.inputs) inputs.push_back(add_input(input.spec()));
  const std::vector<Tensor> once = unrolled_gradient(call, layout, inputs);
  std::vector<Tensor> targets;
  std::vector<Tensor> target_seeds;
  for (size_t i = 0; i < once.size(); ++i) {
    if (!call.output_gradients[i].defined() || !once[i].defined()) continue;
    targets.push_back(once[i]);
    target_seeds.push_back(add_input(once[i].spec()));
    seeds.push_back(call.output_gradients[i]);
  }
  const size_t sources = layout.first() + call.outputs.size();
  const std::vector<Tensor> twice =
      call.context.gradients(targets, target_seeds, std::span<const Tensor>(inputs).first(sources));
  std::vector<Tensor> results;
  std::vector<size_t> of;
  for (size_t i = 0; i < twice.size(); ++i) {
    if (!twice[i].defined()) continue;
    results.push_back(twice[i]);
    of.push_back(i);
  }
  set_outputs(capture, results, call.op.name);
  return of;
}

std::vector<Tensor> gradient_of_gradient(const GradientCall& call) {
  graph::Graph graph;
  std::vector<Tensor> seeds;
  const std::vector<size_t> of = trace_second_gradient(call, graph, seeds);
  std::vector<Tensor> arguments(call.inputs.begin(), call.inputs.end());
  arguments.insert(arguments.end(), seeds.begin(), seeds.end());
  const std::vector<Tensor> values = inline_graph(graph, arguments);
  std::vector<Tensor> result(call.inputs.size());
  for (size_t i = 0; i < values.size(); ++i) result[of[i]] = values[i];
  return result;
}

std::vector<ErrorSample> recurrent_errors(bool lstm) {
  const int64_t columns = lstm ? 8 : 6;
  const Attributes plain{{"reverse", false}, {"initial_state", false}, {"lengths", false}};
  const Attributes with_lengths{{"reverse", false}, {"initial_state", false}, {"lengths", true}};
  const auto f32 = [](Shape shape) { return TensorSpec{DType::kF32, shape}; };
  const TensorSpec x = f32({2, 5, 3});
  const TensorSpec kernel = f32({3, columns});
  const TensorSpec recurrent = f32({2, columns});
  const TensorSpec bias = lstm ? f32({columns}) : f32({2, columns});
  return {
      {{f32({5, 3}), kernel, recurrent, bias}, plain, ErrorCode::kShapeMismatch},
      {{f32({2, 5, 4}), kernel, recurrent, bias}, plain, ErrorCode::kShapeMismatch},
      {{x, kernel, f32({3, columns}), bias}, plain, ErrorCode::kShapeMismatch},
      {{x, kernel, recurrent, f32({columns - 1})}, plain, ErrorCode::kShapeMismatch},
      {{x, {DType::kF64, {3, columns}}, recurrent, bias}, plain, ErrorCode::kDtypeMismatch},
      {{{DType::kBF16, {2, 5, 3}}, kernel, recurrent, bias}, plain, ErrorCode::kDtypeMismatch},
      {{x, kernel, recurrent, bias}, with_lengths, ErrorCode::kInvalidArgument},
      {{x, kernel, recurrent, bias, f32({2})}, with_lengths, ErrorCode::kDtypeMismatch},
      {{x, kernel, recurrent, bias, {DType::kI64, {3}}}, with_lengths, ErrorCode::kShapeMismatch},
  };
}

void add_layer(graph::Registry& registry, std::string_view name, std::string_view summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.min_inputs = 4;
  op.max_inputs = op.name == "lstm" ? 7 : 6;
  op.infer = infer_recurrent;
  op.gradient = recurrent_gradient;
  op.precision.rule = graph::PrecisionRule::kLow;
  op.skippable_outputs = OpDef::kAllOutputs;
  op.flops = recurrent_flops;
  op.reference = recurrent_reference;
  op.samples = recurrent_samples(op);
  op.errors = recurrent_errors(op.name == "lstm");
  registry.add(op);

  OpDef gradient;
  gradient.name = op.name + "_gradient";
  gradient.summary = fmt::format("gradients of {}'s inputs", name);
  gradient.min_inputs = 4;
  gradient.max_inputs = -1;
  gradient.infer = infer_recurrent_gradient;
  gradient.gradient = gradient_of_gradient;
  gradient.precision.rule = graph::PrecisionRule::kLow;
  gradient.skippable_outputs = OpDef::kAllOutputs;
  gradient.flops = recurrent_flops;
  gradient.reference = recurrent_gradient_reference;
  gradient.samples = recurrent_gradient_samples(op);
  gradient.tolerance = 4;         // sums over steps and rows
  gradient.differentiable = {0};  // changing the other inputs would also change saved values
  const TensorSpec f{DType::kF32, {2, 5, 3}};
  gradient.errors = {{{f, f, f, f, f},
                      {{"reverse", false}, {"initial_state", false}, {"lengths", false}, {"seeds", Dims{0}}},
                      ErrorCode::kInvalidArgument}};
  registry.add(std::move(gradient));
}

}  // namespace

void register_recurrent(graph::Registry& registry) {
  add_layer(registry, "lstm", "a long short-term memory over a sequence");
  add_layer(registry, "gru", "a gated recurrent unit over a sequence");
}

}  // namespace ops

namespace {

Tensor bias_or_zeros(const Tensor& bias, const Tensor& kernel, bool lstm) {
  if (bias.defined()) return bias;
  const int64_t columns = kernel.extent(-1);
  return constant(zeros(lstm ? Shape{columns} : Shape{2, columns}, kernel.dtype()));
}

/// `x` with zeros after each row's length, so that padding, even NaN, doesn't enter products over whole
/// sequences. If the arguments don't match, returns x; the op's shape rule then reports the error.
Tensor without_padding(const Tensor& x, const Tensor& lengths) {
  const bool fits = x.rank() == 3 && lengths.shape() == Shape{x.extent(0)} && is_integer(lengths.dtype());
  if (!fits) return x;
  const Tensor times = constant(arange(x.extent(1), lengths.dtype()));
  const Tensor within = less(reshape(times, {1, x.extent(1), 1}), reshape(lengths, {x.extent(0), 1, 1}));
  return where(within, x, scalar(0, x.dtype()));
}

/// Calls the op of a whole layer, in f32 for 16-bit floats. The `states` are all defined or all undefined.
std::vector<Tensor> apply_layer(const graph::OpDef& op, bool lstm, const Tensor& x, const Tensor& kernel,
                                const Tensor& recurrent_kernel, const Tensor& bias,
                                const std::vector<Tensor>& states, const RecurrentOptions& options) {
  require(x.defined() && kernel.defined() && recurrent_kernel.defined(), ErrorCode::kInvalidArgument, op.name,
          "x or a kernel is undefined");
  const Tensor used = options.lengths.defined() ? without_padding(x, options.lengths) : x;
  std::vector<Tensor> inputs{used, kernel, recurrent_kernel, bias_or_zeros(bias, kernel, lstm)};
  const bool initial_state = states[0].defined();
  for (const Tensor& state : states) {
    require(state.defined() == initial_state, ErrorCode::kInvalidArgument, op.name,
            "of h and c only one is given; give both or none");
    if (initial_state) inputs.push_back(state);
  }
  const bool half = is_half(x.dtype());
  if (half) {
    for (Tensor& input : inputs) input = cast(input, DType::kF32);
  }
  if (options.lengths.defined()) inputs.push_back(options.lengths);
  std::vector<Tensor> results = graph::apply(op, inputs,
                                             {{"reverse", options.reverse},
                                              {"initial_state", initial_state},
                                              {"lengths", options.lengths.defined()}});
  if (half) {
    for (Tensor& result : results) result = cast(result, x.dtype());
  }
  return results;
}

}  // namespace

LstmResult lstm(const Tensor& x, const Tensor& kernel, const Tensor& recurrent_kernel, const Tensor& bias,
                const LstmState& initial, const RecurrentOptions& options) {
  static const graph::OpDef& op = ops::row("lstm");
  const std::vector<Tensor> results =
      apply_layer(op, true, x, kernel, recurrent_kernel, bias, {initial.h, initial.c}, options);
  return {results[0], results[1], results[2]};
}

GruResult gru(const Tensor& x, const Tensor& kernel, const Tensor& recurrent_kernel, const Tensor& bias,
              const Tensor& initial, const RecurrentOptions& options) {
  static const graph::OpDef& op = ops::row("gru");
  const std::vector<Tensor> results =
      apply_layer(op, false, x, kernel, recurrent_kernel, bias, {initial}, options);
  return {results[0], results[1]};
}

LstmState lstm_step(const Tensor& x, const LstmState& state, const Tensor& kernel,
                    const Tensor& recurrent_kernel, const Tensor& bias) {
  const ops::RecurrentStep step = ops::recurrent_step(true, matmul(x, kernel), state.h, state.c,
                                                      recurrent_kernel, bias_or_zeros(bias, kernel, true));
  return {step.h, step.c};
}

Tensor gru_step(const Tensor& x, const Tensor& h, const Tensor& kernel, const Tensor& recurrent_kernel,
                const Tensor& bias) {
  return ops::recurrent_step(false, matmul(x, kernel), h, Tensor(), recurrent_kernel,
                             bias_or_zeros(bias, kernel, false))
      .h;
}

}  // namespace isochron
