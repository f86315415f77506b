#include "isochron/ops/normalization/normalization.h"

#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/normalization/group_norm.h"
#include "isochron/ops/normalization/normalization_row.h"
#include "isochron/ops/normalization/normalize_by_moments.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using Values = std::vector<std::vector<double>>;

void check_rows(const OpCall& call) {
  const TensorSpec& x = call.inputs[0];
  require(x.dtype == DType::kF32 || x.dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "takes f32 or f64, got {}; cast it", x.str());
  require_min_rank(call, 0, 1);
  require(x.shape.elems() > 0, ErrorCode::kShapeMismatch, call.op.name, "{} has no elements", x.str());
  require_same_dtype(call);
}

Shape rows_of(const Shape& shape) { return Shape(shape.span().first(static_cast<size_t>(shape.rank() - 1))); }

void require_columns(const OpCall& call, size_t index) {
  const Shape expected{call.inputs[0].shape.back()};
  require(call.inputs[index].shape == expected, ErrorCode::kShapeMismatch, call.op.name,
          "input {} must be {} for rows of {}, got {}", index, expected.str(), call.inputs[0].str(),
          call.inputs[index].str());
}

std::vector<TensorSpec> infer_layer_norm(const OpCall& call) {
  check_rows(call);
  for (size_t i = 1; i < call.inputs.size(); ++i) require_columns(call, i);
  const TensorSpec rows{call.inputs[0].dtype, rows_of(call.inputs[0].shape)};
  return {call.inputs[0], rows, rows};
}

std::vector<TensorSpec> infer_layer_norm_gradient(const OpCall& call) {
  check_rows(call);
  const Shape rows = rows_of(call.inputs[0].shape);
  for (size_t i = 1; i < 3; ++i) {
    require(call.inputs[i].shape == rows, ErrorCode::kShapeMismatch, call.op.name,
            "input {} must be {}, got {}", i, rows.str(), call.inputs[i].str());
  }
  require_same_shape(call, 0, 3);
  if (call.inputs.size() == 4) return {call.inputs[0]};
  require_columns(call, 4);
  if (call.inputs.size() == 6) require_same_shape(call, 0, 5);
  return {call.inputs[0], call.inputs[4], call.inputs[4]};
}

/// The gradient of x through the outputs mean and 1 / deviation; undefined if there is none.
Tensor through_row_moments(const GradientCall& call) {
  const Tensor& x = call.inputs[0];
  const double share = 1.0 / static_cast<double>(x.shape().back());
  const Tensor& of_mean = call.output_gradients[1];
  const Tensor& of_scale = call.output_gradients[2];
  Tensor result;
  if (of_mean.defined() && call.attributes.get<bool>("centered")) {
    result = broadcast_to(as_column(of_mean * share), x.shape());
  }
  if (of_scale.defined()) {
    const Tensor& scale = call.outputs[2];
    const Tensor part =
        (x - as_column(call.outputs[1])) * as_column(of_scale * scale * square(scale) * -share);
    result = result.defined() ? result + part : part;
  }
  return result;
}

/// layer_norm_gradient composed of other ops, used to differentiate it.
std::vector<Tensor> decomposed_gradient(std::span<const Tensor> in, bool centered) {
  const Tensor& dy = in[3];
  const Tensor scale = as_column(in[2]);
  const Tensor normal = (centered ? in[0] - as_column(in[1]) : in[0]) * scale;
  const Tensor weighted = in.size() > 4 ? dy * in[4] : dy;
  Tensor inner = weighted - normal * mean(weighted * normal, {-1}, true);
  if (centered) inner = inner - mean(weighted, {-1}, true);
  std::vector<Tensor> result{in.size() > 5 ? inner * scale + in[5] : inner * scale};
  if (in.size() > 4) {
    Axes rows;
    for (int axis = 0; axis + 1 < dy.rank(); ++axis) rows.push_back(axis);
    result.push_back(rows.rank() > 0 ? sum(dy * normal, rows) : dy * normal);
    result.push_back(rows.rank() > 0 ? sum(dy, rows) : dy);
  }
  return result;
}

std::vector<Tensor> layer_norm_second_gradient(const GradientCall& call) {
  const bool centered = call.attributes.get<bool>("centered");
  return call.context.differentiate(
      [centered](std::span<const Tensor> inputs) { return decomposed_gradient(inputs, centered); },
      call.inputs, call.output_gradients);
}

std::vector<Tensor> layer_norm_gradient(const GradientCall& call) {
  static const OpDef& op = row("layer_norm_gradient");
  std::vector<Tensor> result(call.inputs.size());
  if (call.output_gradients[0].defined()) {
    std::vector<Tensor> inputs{call.inputs[0], call.outputs[1], call.outputs[2], call.output_gradients[0]};
    if (call.inputs.size() > 1) inputs.push_back(call.inputs[1]);
    const std::vector<Tensor> gradients =
        graph::apply(op, inputs, {{"centered", call.attributes.get<bool>("centered")}});
    for (size_t i = 0; i < result.size(); ++i) {
      if (call.needed[i]) result[i] = gradients[i];
    }
  }
  const Tensor rest = call.needed[0] ? through_row_moments(call) : Tensor();
  if (rest.defined()) result[0] = result[0].defined() ? result[0] + rest : rest;
  return result;
}

struct RowMoments {
  double mean = 0;
  double scale = 0;
};

RowMoments row_moments(const double* x, size_t n, bool centered, double epsilon) {
  RowMoments m;
  for (size_t i = 0; centered && i < n; ++i) m.mean += x[i] / static_cast<double>(n);
  double variance = 0;
  for (size_t i = 0; i < n; ++i) variance += (x[i] - m.mean) * (x[i] - m.mean) / static_cast<double>(n);
  m.scale = 1 / std::sqrt(variance + epsilon);
  return m;
}

Values layer_norm_reference(const OpCall& call, std::span<const TensorSpec>, const Values& in) {
  const size_t n = static_cast<size_t>(call.inputs[0].shape.back());
  Values out(3);
  for (size_t start = 0; start < in[0].size(); start += n) {
    const RowMoments m = row_moments(in[0].data() + start, n, call.attributes.get<bool>("centered"),
                                     call.attributes.get<double>("epsilon"));
    for (size_t i = 0; i < n; ++i) {
      double value = (in[0][start + i] - m.mean) * m.scale;
      if (in.size() > 1) value *= in[1][i];
      if (in.size() > 2) value += in[2][i];
      out[0].push_back(value);
    }
    out[1].push_back(m.mean);
    out[2].push_back(m.scale);
  }
  return out;
}

Values layer_norm_gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                     const Values& in) {
  const bool centered = call.attributes.get<bool>("centered");
  const size_t n = static_cast<size_t>(call.inputs[0].shape.back());
  Values out(outputs.size(), std::vector<double>(n, 0.0));
  out[0].assign(in[0].size(), 0.0);
  for (size_t r = 0; r * n < in[0].size(); ++r) {
    double sum = 0;
    double dot = 0;
    const auto normal = [&](size_t i) { return (in[0][r * n + i] - (centered ? in[1][r] : 0.0)) * in[2][r]; };
    const auto weighted = [&](size_t i) { return in[3][r * n + i] * (in.size() > 4 ? in[4][i] : 1.0); };
    for (size_t i = 0; i < n; ++i) {
      sum += centered ? weighted(i) / static_cast<double>(n) : 0.0;
      dot += weighted(i) * normal(i) / static_cast<double>(n);
      if (in.size() == 4) continue;
      out[1][i] += in[3][r * n + i] * normal(i);
      out[2][i] += in[3][r * n + i];
    }
    for (size_t i = 0; i < n; ++i) {
      out[0][r * n + i] =
          in[2][r] * (weighted(i) - sum - normal(i) * dot) + (in.size() > 5 ? in[5][r * n + i] : 0);
    }
  }
  return out;
}

void register_layer_norm(graph::Registry& registry) {
  OpDef op = normalization_row(
      "layer_norm", "rows brought to mean 0 (where centered) and variance 1, times gamma, plus beta", false);
  op.infer = infer_layer_norm;
  op.gradient = layer_norm_gradient;
  op.reference = layer_norm_reference;
  const auto how = [](bool centered) { return Attributes{{"epsilon", 1e-5}, {"centered", centered}}; };
  const InputSample columns{{5}};
  op.samples = {{{{{4, 5}}}, how(true)},
                {{{{2, 3, 5}}, columns}, how(true)},
                {{{{4, 5}}, columns, columns}, how(true)},
                {{{{4, 5}}, columns, columns}, how(false)},
                {{{{3, 130}, 5, 9}, {{130}}, {{130}}}, how(true)},
                {{{{70, 16}}, {{16}}}, how(false)}};
  op.errors = {{{{DType::kF32, {4, 5}}, {DType::kF32, {4}}}, how(true), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {4, 5}}, {DType::kF64, {5}}}, how(true), ErrorCode::kDtypeMismatch},
               {{{DType::kF32, {4, 0}}}, how(true), ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

void register_layer_norm_gradient(graph::Registry& registry) {
  OpDef op =
      normalization_row("layer_norm_gradient",
                        "gradient of layer_norm with respect to rows, gamma and beta; another gradient "
                        "of the rows is added by the pass `residuals`",
                        true);
  op.max_inputs = 6;
  op.infer = infer_layer_norm_gradient;
  op.gradient = layer_norm_second_gradient;
  op.reference = layer_norm_gradient_reference;
  const auto how = [](bool centered) { return Attributes{{"centered", centered}}; };
  const InputSample scales{{6}, 0.5, 2};
  op.samples = {{{{{6, 5}}, {{6}}, scales, {{6, 5}}}, how(true)},
                {{{{6, 5}}, {{6}}, scales, {{6, 5}}, {{5}}}, how(true)},
                {{{{2, 3, 17}}, {{2, 3}}, {{2, 3}, 0.5, 2}, {{2, 3, 17}}, {{17}}}, how(false)},
                {{{{150, 4}}, {{150}}, {{150}, 0.5, 2}, {{150, 4}}, {{4}}}, how(true)},
                {{{{2, 3, 19}}, {{2, 3}}, {{2, 3}, 0.5, 2}, {{2, 3, 19}}, {{19}}, {{2, 3, 19}}}, how(true)}};
  op.errors = {{{{DType::kF32, {6, 5}}, {DType::kF32, {5}}, {DType::kF32, {6}}, {DType::kF32, {6, 5}}},
                how(true),
                ErrorCode::kShapeMismatch},
               {{{DType::kF32, {6, 5}},
                 {DType::kF32, {6}},
                 {DType::kF32, {6}},
                 {DType::kF32, {6, 5}},
                 {DType::kF32, {5}},
                 {DType::kF32, {6, 1}}},
                how(true),
                ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

}  // namespace

void register_normalization(graph::Registry& registry) {
  register_layer_norm(registry);
  register_layer_norm_gradient(registry);
  register_group_norm(registry);
  register_normalize_by_moments(registry);
}

}  // namespace ops

namespace {

Tensor normalize_rows(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                      bool centered) {
  static const graph::OpDef& op = ops::row("layer_norm");
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  require(epsilon >= 0, ErrorCode::kInvalidArgument, centered ? "layer_norm" : "rms_norm",
          "epsilon must be >= 0, got {}", epsilon);
  if (is_half(x.dtype())) {
    return cast(normalize_rows(ops::in_f32(x), ops::in_f32(gamma), ops::in_f32(beta), epsilon, centered),
                x.dtype());
  }
  if (ops::has_no_rows(x)) return ops::norm_of_no_rows(x, gamma, beta);
  std::vector<Tensor> inputs{x};
  if (gamma.defined()) inputs.push_back(gamma);
  if (gamma.defined() && beta.defined()) inputs.push_back(beta);
  const Tensor y = graph::apply(op, inputs, {{"epsilon", epsilon}, {"centered", centered}})[0];
  return !gamma.defined() && beta.defined() ? y + beta : y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return normalize_rows(x, gamma, beta, epsilon, true);
}

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  const ErrorScope scope("rms_norm");
  return normalize_rows(x, gamma, {}, epsilon, false);
}

}  // namespace isochron
