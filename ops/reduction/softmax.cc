#include "isochron/ops/reduction/softmax.h"

#include <algorithm>
#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/row_rules.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using Values = std::vector<std::vector<double>>;

std::vector<TensorSpec> infer_rows(const OpCall& call) {
  check_rows(call);
  return {call.inputs[0]};
}

std::vector<TensorSpec> infer_cross_entropy(const OpCall& call) {
  check_rows(call);
  require_dtype(call, 1, DType::kI64);
  const Shape rows = without_last(call.inputs[0].shape);
  require(call.inputs[1].shape == rows, ErrorCode::kShapeMismatch, call.op.name,
          "logits {} need labels of shape {}, got {}", call.inputs[0].str(), rows.str(),
          call.inputs[1].str());
  return {{call.inputs[0].dtype, rows}};
}

std::vector<TensorSpec> infer_cross_entropy_gradient(const OpCall& call) {
  const TensorSpec loss = infer_cross_entropy(call)[0];
  require(call.inputs[2] == loss, ErrorCode::kShapeMismatch, call.op.name,
          "the losses' gradient is {}, expected {}", call.inputs[2].str(), loss.str());
  return {call.inputs[0]};
}

Tensor row_sum(const Tensor& x) { return sum(x, {-1}, true); }
std::vector<Tensor> softmax_gradient(const GradientCall& call) {
  const Tensor weighted = call.output_gradients[0] * call.outputs[0];
  return {weighted - call.outputs[0] * row_sum(weighted)};
}

std::vector<Tensor> log_softmax_gradient(const GradientCall& call) {
  const Tensor& g = call.output_gradients[0];
  return {g - exp(call.outputs[0]) * row_sum(g)};
}

std::vector<Tensor> cross_entropy_gradient(const GradientCall& call) {
  static const OpDef& op = row("sparse_softmax_cross_entropy_gradient");
  return {graph::apply_one(op, {call.inputs[0], call.inputs[1], call.output_gradients[0]}), Tensor()};
}

/// The gradient of y = (p - one_hot) g. With the incoming gradient G, d logits = p (G g - sum p G g) and d g
/// = sum (p - one_hot) G.
std::vector<Tensor> cross_entropy_second_gradient(const GradientCall& call) {
  const Tensor& logits = call.inputs[0];
  const Tensor& incoming = call.output_gradients[0];
  const Tensor p = softmax(logits);
  std::vector<Tensor> result(3);
  if (call.needed[0]) {
    const Tensor scaled = p * incoming * as_column(call.inputs[2]);
    result[0] = scaled - p * row_sum(scaled);
  }
  if (call.needed[2]) {
    const Tensor chosen = one_hot(call.inputs[1], logits.shape().back(), logits.dtype());
    result[2] = sum((p - chosen) * incoming, {-1});
  }
  return result;
}

double row_flops(const OpCall& call) { return 10.0 * static_cast<double>(call.inputs[0].shape.elems()); }

/// The log softmax of the rows of an input, in f64.
std::vector<double> reference_log_softmax(const Shape& shape, const std::vector<double>& x) {
  const size_t columns = static_cast<size_t>(shape.back());
  std::vector<double> result(x.size());
  for (size_t start = 0; start < x.size(); start += columns) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(start);
    const double largest = *std::max_element(first, first + static_cast<std::ptrdiff_t>(columns));
    double total = 0;
    for (size_t k = 0; k < columns; ++k) total += std::exp(x[start + k] - largest);
    for (size_t k = 0; k < columns; ++k) result[start + k] = x[start + k] - largest - std::log(total);
  }
  return result;
}

Values log_softmax_reference(const OpCall& call, std::span<const TensorSpec>, const Values& inputs) {
  return {reference_log_softmax(call.inputs[0].shape, inputs[0])};
}

Values softmax_reference(const OpCall& call, std::span<const TensorSpec>, const Values& inputs) {
  std::vector<double> result = reference_log_softmax(call.inputs[0].shape, inputs[0]);
  for (double& value : result) value = std::exp(value);
  return {result};
}

Values cross_entropy_reference(const OpCall& call, std::span<const TensorSpec>, const Values& inputs) {
  const std::vector<double> logs = reference_log_softmax(call.inputs[0].shape, inputs[0]);
  const size_t columns = static_cast<size_t>(call.inputs[0].shape.back());
  std::vector<double> losses(inputs[1].size());
  for (size_t r = 0; r < losses.size(); ++r)
    losses[r] = -logs[r * columns + static_cast<size_t>(inputs[1][r])];
  return {losses};
}

Values cross_entropy_gradient_reference(const OpCall& call, std::span<const TensorSpec>,
                                        const Values& inputs) {
  std::vector<double> result = reference_log_softmax(call.inputs[0].shape, inputs[0]);
  const size_t columns = static_cast<size_t>(call.inputs[0].shape.back());
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t r = i / columns;
    const bool at_label = i % columns == static_cast<size_t>(inputs[1][r]);
    result[i] = (std::exp(result[i]) - (at_label ? 1.0 : 0.0)) * inputs[2][r];
  }
  return {result};
}

InputSample labels_of(const Shape& shape, std::vector<double> values) {
  return {shape, 0, 0, DType::kI64, std::move(values)};
}

OpDef row_op(std::string name, std::string summary, std::vector<TensorSpec> (*infer)(const OpCall&),
             std::vector<Tensor> (*gradient)(const GradientCall&), graph::ReferenceFunction reference) {
  OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.infer = infer;
  op.gradient = gradient;
  op.flops = row_flops;
  op.reference = std::move(reference);
  op.tolerance = 10;  // sums of up to 700 exponentials
  return op;
}

}  // namespace

void register_softmax(graph::Registry& registry) {
  const std::vector<OpSample> samples = {{{{{4, 10}, -5, 5}}}, {{{{3}}}},    {{{{2, 3, 5}, -90, 90}}},
                                         {{{{2, 700}}}},       {{{{0, 4}}}}, {{{{3, 1}}}}};
  const std::vector<ErrorSample> errors = {{{{DType::kF32, {}}}, {}, ErrorCode::kShapeMismatch},
                                           {{{DType::kF32, {2, 0}}}, {}, ErrorCode::kShapeMismatch},
                                           {{{DType::kI64, {2}}}, {}, ErrorCode::kDtypeMismatch}};
  OpDef soft =
      row_op("softmax", "e^x / sum e^x over the last axis", infer_rows, softmax_gradient, softmax_reference);
  soft.samples = samples;
  soft.errors = errors;
  registry.add(std::move(soft));
  OpDef logarithm = row_op("log_softmax", "x - log sum e^x over the last axis", infer_rows,
                           log_softmax_gradient, log_softmax_reference);
  logarithm.samples = samples;
  logarithm.errors = errors;
  registry.add(std::move(logarithm));

  OpDef loss = row_op("sparse_softmax_cross_entropy", "-log softmax(logits)[label] of each row",
                      infer_cross_entropy, cross_entropy_gradient, cross_entropy_reference);
  loss.min_inputs = loss.max_inputs = 2;
  loss.differentiable = {0};
  loss.samples = {{{{{4, 10}, -5, 5}, labels_of({4}, {0, 9, 3, 3})}},
                  {{{{5}}, labels_of({}, {2})}},
                  {{{{2, 3, 4}, -50, 50}, labels_of({2, 3}, {0, 1, 2, 3, 0, 1})}}};
  loss.errors = {{{{DType::kF32, {4, 3}}, {DType::kI64, {3}}}, {}, ErrorCode::kShapeMismatch},
                 {{{DType::kF32, {4, 3}}, {DType::kF32, {4}}}, {}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(loss));

  OpDef gradient =
      row_op("sparse_softmax_cross_entropy_gradient", "(softmax(logits) - one_hot(label)) g of each row",
             infer_cross_entropy_gradient, cross_entropy_second_gradient, cross_entropy_gradient_reference);
  gradient.min_inputs = gradient.max_inputs = 3;
  gradient.differentiable = {0, 2};
  gradient.samples = {{{{{4, 10}, -5, 5}, labels_of({4}, {0, 9, 3, 3}), {{4}}}},
                      {{{{2, 3, 4}}, labels_of({2, 3}, {0, 1, 2, 3, 0, 1}), {{2, 3}}}}};
  gradient.errors = {
      {{{DType::kF32, {4, 3}}, {DType::kI64, {4}}, {DType::kF32, {3}}}, {}, ErrorCode::kShapeMismatch}};
  registry.add(std::move(gradient));
}

}  // namespace ops

namespace {

constexpr double kProbabilityEpsilon = 1e-7;  // Keras's backend.epsilon()

/// Applies a row op along any axis, in any floating dtype: the axis is moved to the end, and 16-bit floats
/// are computed in f32.
Tensor over_axis(const graph::OpDef& op, const Tensor& x, int64_t axis) {
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  if (is_half(x.dtype())) {
    return cast(over_axis(op, cast(x, DType::kF32), axis), x.dtype());
  }
  const int at = normalize_axis(axis, x.rank(), op.name);
  if (at == x.rank() - 1) return graph::apply_one(op, {x});
  Dims exchanged;
  for (int i = 0; i < x.rank(); ++i) exchanged.push_back(i);
  std::swap(exchanged[at], exchanged[x.rank() - 1]);
  return transpose(graph::apply_one(op, {transpose(x, exchanged)}), exchanged);
}

Tensor as_i64(const Tensor& labels, std::string_view where) {
  require(labels.defined() && is_integer(labels.dtype()), ErrorCode::kDtypeMismatch, where,
          "labels must be integers, got {}", labels.defined() ? labels.spec().str() : "an undefined tensor");
  return cast(labels, DType::kI64);
}

void require_like(const Tensor& a, const Tensor& b, std::string_view where) {
  require(a.defined() && b.defined(), ErrorCode::kInvalidArgument, where, "an operand is undefined");
  require(a.shape() == b.shape(), ErrorCode::kShapeMismatch, where,
          "predictions {} and targets {} differ in shape", a.spec().str(), b.spec().str());
}

Tensor clipped(const Tensor& probabilities) {
  return clip(probabilities, kProbabilityEpsilon, 1 - kProbabilityEpsilon);
}

Tensor log_of_normalized(const Tensor& probabilities) {
  return log(clipped(probabilities / sum(probabilities, {-1}, true)));
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) {
  static const graph::OpDef& op = ops::row("softmax");
  return over_axis(op, x, axis);
}

Tensor log_softmax(const Tensor& x, int64_t axis) {
  static const graph::OpDef& op = ops::row("log_softmax");
  return over_axis(op, x, axis);
}

Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels) {
  const ErrorScope scope("sparse_softmax_cross_entropy");
  static const graph::OpDef& op = ops::row("sparse_softmax_cross_entropy");
  const Tensor wide_labels = as_i64(labels, op.name);
  if (logits.defined() && is_half(logits.dtype())) {
    return cast(graph::apply_one(op, {cast(logits, DType::kF32), wide_labels}), logits.dtype());
  }
  return graph::apply_one(op, {logits, wide_labels});
}

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& targets) {
  const ErrorScope scope("softmax_cross_entropy");
  require_like(logits, targets, "softmax_cross_entropy");
  return -sum(targets * log_softmax(logits), {-1});
}

Tensor sparse_categorical_cross_entropy(const Tensor& probabilities, const Tensor& labels) {
  const ErrorScope scope("sparse_categorical_cross_entropy");
  require(probabilities.defined() && probabilities.rank() >= 1, ErrorCode::kShapeMismatch,
          "sparse_categorical_cross_entropy", "probabilities need at least one axis");
  const Tensor chosen = one_hot(as_i64(labels, "sparse_categorical_cross_entropy"),
                                probabilities.shape().back(), probabilities.dtype());
  require_like(probabilities, chosen, "sparse_categorical_cross_entropy");
  return -sum(chosen * log_of_normalized(probabilities), {-1});
}

Tensor categorical_cross_entropy(const Tensor& probabilities, const Tensor& targets) {
  const ErrorScope scope("categorical_cross_entropy");
  require_like(probabilities, targets, "categorical_cross_entropy");
  return -sum(targets * log_of_normalized(probabilities), {-1});
}

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets) {
  const ErrorScope scope("binary_cross_entropy");
  require_like(probabilities, targets, "binary_cross_entropy");
  require(probabilities.dtype() == targets.dtype(), ErrorCode::kDtypeMismatch, "binary_cross_entropy",
          "probabilities are {}, targets {}; cast one of them", dtype_name(probabilities.dtype()),
          dtype_name(targets.dtype()));
  if (is_half(probabilities.dtype())) {  // in which 1 - epsilon is 1, whose complement has no logarithm
    return cast(binary_cross_entropy(cast(probabilities, DType::kF32), cast(targets, DType::kF32)),
                probabilities.dtype());
  }
  const Tensor p = clipped(probabilities);
  return -(targets * log(p) + (1.0 - targets) * log(1.0 - p));
}

Tensor binary_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets) {
  const ErrorScope scope("binary_cross_entropy_from_logits");
  require_like(logits, targets, "binary_cross_entropy_from_logits");
  // max(x, 0) and |x| use the same condition, so that the gradient is sigmoid(logits) - targets at 0 too.
  const Tensor positive = logits >= 0.0;
  return where(positive, logits, scalar(0, logits.dtype())) - logits * targets +
         softplus(where(positive, -logits, logits));
}

}  // namespace isochron
