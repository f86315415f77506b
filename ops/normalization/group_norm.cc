#include "isochron/ops/normalization/group_norm.h"

#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/normalization/group_view.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/normalization/normalization_row.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using Values = std::vector<std::vector<double>>;

void check_channels(const OpCall& call) {
  const TensorSpec& x = call.inputs[0];
  require(x.dtype == DType::kF32 || x.dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "takes f32 or f64, got {}; cast it", x.str());
  require_min_rank(call, 0, 1);
  require(x.shape.elems() > 0, ErrorCode::kShapeMismatch, call.op.name, "{} has no elements", x.str());
  require_same_dtype(call);
}

void check_groups(const OpCall& call) {
  check_channels(call);
  const TensorSpec& x = call.inputs[0];
  const int64_t groups = call.attributes.get<int64_t>("groups");
  if (!call.attributes.get<bool>("batch")) require_min_rank(call, 0, 2);
  require(groups >= 1 && x.shape.back() % groups == 0, ErrorCode::kInvalidArgument, call.op.name,
          "{} groups don't divide the {} channels of {}", groups, x.shape.back(), x.str());
}

/// The shape of the mean and variance outputs, which have a number per group.
Shape moments_shape(const OpCall& call) {
  const int64_t groups = call.attributes.get<int64_t>("groups");
  return call.attributes.get<bool>("batch") ? Shape{groups} : Shape{call.inputs[0].shape[0], groups};
}

void require_shape(const OpCall& call, size_t index, const Shape& shape) {
  require(call.inputs[index].shape == shape, ErrorCode::kShapeMismatch, call.op.name,
          "input {} must be {} for {}, got {}", index, shape.str(), call.inputs[0].str(),
          call.inputs[index].str());
}

std::vector<TensorSpec> infer_moments(const OpCall& call) {
  check_channels(call);
  const TensorSpec result{call.inputs[0].dtype, {call.inputs[0].shape.back()}};
  return {result, result};
}

std::vector<TensorSpec> infer_group_norm(const OpCall& call) {
  check_groups(call);
  for (size_t i = 1; i < call.inputs.size(); ++i) require_shape(call, i, {call.inputs[0].shape.back()});
  const TensorSpec moments{call.inputs[0].dtype, moments_shape(call)};
  return {call.inputs[0], moments, moments};
}

std::vector<TensorSpec> infer_group_norm_gradient(const OpCall& call) {
  check_groups(call);
  for (size_t i = 1; i < 3; ++i) require_shape(call, i, moments_shape(call));
  require_same_shape(call, 0, 3);
  if (call.inputs.size() == 4) return {call.inputs[0]};
  require_shape(call, 4, {call.inputs[0].shape.back()});
  return {call.inputs[0], call.inputs[4], call.inputs[4]};
}

std::vector<Tensor> moments_gradient(const GradientCall& call) {
  const Tensor& x = call.inputs[0];
  const double share = static_cast<double>(x.shape().back()) / static_cast<double>(x.elems());
  const Tensor& of_mean = call.output_gradients[0];
  const Tensor& of_variance = call.output_gradients[1];
  Tensor result;
  if (of_variance.defined()) result = (x - call.outputs[0]) * (of_variance * (2 * share));
  if (of_mean.defined()) {
    const Tensor part = of_mean * share;
    result = result.defined() ? result + part : broadcast_to(part, x.shape());
  }
  return {result};
}

/// Reshapes a call's tensors for the computation by other ops. x keeps its shape if each channel of the whole
/// batch is a group; otherwise it becomes (samples, positions, groups, width).
class Parts {
 public:
  Parts(const Shape& x, const Attributes& attributes)
      : shape_(x),
        view_(group_view(x, attributes)),
        by_channel_(attributes.get<bool>("batch") && view_.width == 1) {
    if (by_channel_) {
      for (int axis = 0; axis + 1 < x.rank(); ++axis) axes_.push_back(axis);
    } else {
      axes_ = {1, 3};
    }
  }
  Tensor of(const Tensor& x) const {
    return by_channel_ ? x : reshape(x, {view_.samples, view_.positions, view_.groups, view_.width});
  }
  Tensor back(const Tensor& parts) const { return by_channel_ ? parts : reshape(parts, shape_); }
  /// A mean or variance, in a shape that broadcasts with parts.
  Tensor moment(const Tensor& m) const {
    return by_channel_ ? m : reshape(m, {view_.samples, 1, view_.groups, 1});
  }
  /// gamma or beta, in a shape that broadcasts with parts.
  Tensor channels(const Tensor& c) const {
    return by_channel_ ? c : reshape(c, {1, 1, view_.groups, view_.width});
  }
  Tensor mean_of(const Tensor& parts) const {
    return axes_.rank() == 0 ? parts : mean(parts, axes_, !by_channel_);
  }
  /// The sum over samples and positions, (C).
  Tensor sum_of(const Tensor& parts) const {
    if (!by_channel_) return reshape(sum(parts, {0, 1}), {view_.channels()});
    return axes_.rank() == 0 ? parts : sum(parts, axes_);
  }
  bool by_channel() const { return by_channel_; }
  double count() const { return static_cast<double>(view_.count()); }

 private:
  Shape shape_;
  GroupView view_;
  bool by_channel_;  // each channel over the batch is a group of its own
  Axes axes_;
};

std::vector<Tensor> decompose_group_norm(const OpCall& call, std::span<const Tensor> in) {
  const Parts parts(in[0].shape(), call.attributes);
  const double epsilon = call.attributes.get<double>("epsilon");
  if (parts.by_channel()) {
    const Moments moments = channel_moments(in[0]);
    return {normalize_channels(in[0], moments, in.size() > 1 ? in[1] : Tensor(),
                               in.size() > 2 ? in[2] : Tensor(), epsilon),
            moments.mean, moments.variance};
  }
  const Tensor x = parts.of(in[0]);
  const Tensor center = parts.mean_of(x);
  const Tensor centered = x - center;
  const Tensor variance = parts.mean_of(square(centered));
  Tensor y = parts.back(centered * rsqrt(variance + epsilon));
  if (in.size() > 1) y = y * in[1];
  if (in.size() > 2) y = y + in[2];
  const Shape moments = moments_shape(call);
  return {y, reshape(center, moments), reshape(variance, moments)};
}

std::vector<Tensor> decomposed_group_gradient(std::span<const Tensor> in, const Attributes& attributes) {
  const Parts parts(in[0].shape(), attributes);
  const Tensor scale = rsqrt(parts.moment(in[2]) + attributes.get<double>("epsilon"));
  const Tensor normal = (parts.of(in[0]) - parts.moment(in[1])) * scale;
  const Tensor dy = parts.of(in[3]);
  if (parts.by_channel()) {  // gamma is the same for all summed elements
    const Tensor sum = parts.sum_of(dy), dot = parts.sum_of(dy * normal);
    const double share = 1 / parts.count();
    const Tensor dx = (dy - sum * share - normal * (dot * share)) * (in.size() > 4 ? scale * in[4] : scale);
    return in.size() > 4 ? std::vector{dx, dot, sum} : std::vector{dx};
  }
  const Tensor weighted = in.size() > 4 ? dy * parts.channels(in[4]) : dy;
  const Tensor inner = weighted - parts.mean_of(weighted) - normal * parts.mean_of(weighted * normal);
  std::vector<Tensor> result{parts.back(inner * scale)};
  if (in.size() > 4) {
    result.push_back(parts.sum_of(dy * normal));
    result.push_back(parts.sum_of(dy));
  }
  return result;
}

std::vector<Tensor> decompose_group_norm_gradient(const OpCall& call, std::span<const Tensor> in) {
  return decomposed_group_gradient(in, call.attributes);
}

std::vector<Tensor> group_norm_second_gradient(const GradientCall& call) {
  const Attributes& attributes = call.attributes;
  return call.context.differentiate(
      [&attributes](std::span<const Tensor> inputs) { return decomposed_group_gradient(inputs, attributes); },
      call.inputs, call.output_gradients);
}

/// The gradient of x through mean and variance; undefined if there is none.
Tensor through_moments(const GradientCall& call) {
  const Parts parts(call.inputs[0].shape(), call.attributes);
  const double share = 1 / parts.count();
  const Tensor& of_mean = call.output_gradients[1];
  const Tensor& of_variance = call.output_gradients[2];
  const Tensor x = parts.of(call.inputs[0]);
  Tensor result;
  if (of_variance.defined()) {
    result = (x - parts.moment(call.outputs[1])) * parts.moment(of_variance * (2 * share));
  }
  if (of_mean.defined()) {
    const Tensor part = parts.moment(of_mean * share);
    result = result.defined() ? result + part : broadcast_to(part, x.shape());
  }
  return result.defined() ? parts.back(result) : result;
}

std::vector<Tensor> group_norm_gradient(const GradientCall& call) {
  static const OpDef& op = row("group_norm_gradient");
  std::vector<Tensor> result(call.inputs.size());
  if (call.output_gradients[0].defined()) {
    std::vector<Tensor> inputs{call.inputs[0], call.outputs[1], call.outputs[2], call.output_gradients[0]};
    if (call.inputs.size() > 1) inputs.push_back(call.inputs[1]);
    const std::vector<Tensor> gradients = graph::apply(op, inputs, call.attributes);
    for (size_t i = 0; i < result.size(); ++i) {
      if (call.needed[i]) result[i] = gradients[i];
    }
  }
  const Tensor rest = call.needed[0] ? through_moments(call) : Tensor();
  if (rest.defined()) result[0] = result[0].defined() ? result[0] + rest : rest;
  return result;
}

/// Calls f(index, moment, channel) for each element of x, with the index of its group's moments and its
/// channel.
template <class F>
void each_element(const GroupView& view, F f) {
  size_t i = 0;
  for (int64_t n = 0; n < view.samples; ++n) {
    for (int64_t p = 0; p < view.positions; ++p) {
      for (int64_t c = 0; c < view.channels(); ++c) {
        f(i++, static_cast<size_t>(n * view.groups + c / view.width), static_cast<size_t>(c));
      }
    }
  }
}

/// Means and variances by their definition.
Values reference_moments(const GroupView& view, const std::vector<double>& x) {
  const double count = static_cast<double>(view.count());
  Values moments(2, std::vector<double>(static_cast<size_t>(view.samples * view.groups), 0.0));
  each_element(view, [&](size_t i, size_t m, size_t) { moments[0][m] += x[i] / count; });
  each_element(view, [&](size_t i, size_t m, size_t) {
    moments[1][m] += (x[i] - moments[0][m]) * (x[i] - moments[0][m]) / count;
  });
  return moments;
}

Values moments_reference(const OpCall& call, std::span<const TensorSpec>, const Values& in) {
  const Shape& x = call.inputs[0].shape;
  return reference_moments(GroupView(x, x.back(), true), in[0]);
}

Values group_norm_reference(const OpCall& call, std::span<const TensorSpec>, const Values& in) {
  const GroupView view = group_view(call.inputs[0].shape, call.attributes);
  const double epsilon = call.attributes.get<double>("epsilon");
  const Values moments = reference_moments(view, in[0]);
  std::vector<double> y(in[0].size());
  each_element(view, [&](size_t i, size_t m, size_t c) {
    y[i] = (in[0][i] - moments[0][m]) / std::sqrt(moments[1][m] + epsilon);
    if (in.size() > 1) y[i] *= in[1][c];
    if (in.size() > 2) y[i] += in[2][c];
  });
  return {y, moments[0], moments[1]};
}

Values group_norm_gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                     const Values& in) {
  const GroupView view = group_view(call.inputs[0].shape, call.attributes);
  const double epsilon = call.attributes.get<double>("epsilon");
  const double count = static_cast<double>(view.count());
  const auto scale = [&](size_t m) { return 1 / std::sqrt(in[2][m] + epsilon); };
  const auto normal = [&](size_t i, size_t m) { return (in[0][i] - in[1][m]) * scale(m); };
  const auto weighted = [&](size_t i, size_t c) { return in[3][i] * (in.size() > 4 ? in[4][c] : 1.0); };
  Values out(outputs.size(), std::vector<double>(static_cast<size_t>(view.channels()), 0.0));
  out[0].assign(in[0].size(), 0.0);
  Values means(2, std::vector<double>(in[1].size(), 0.0));  // of dy, and of dy times the normal x
  each_element(view, [&](size_t i, size_t m, size_t c) {
    means[0][m] += weighted(i, c) / count;
    means[1][m] += weighted(i, c) * normal(i, m) / count;
    if (in.size() == 4) return;
    out[1][c] += in[3][i] * normal(i, m);
    out[2][c] += in[3][i];
  });
  each_element(view, [&](size_t i, size_t m, size_t c) {
    out[0][i] = scale(m) * (weighted(i, c) - means[0][m] - normal(i, m) * means[1][m]);
  });
  return out;
}

Attributes how(int64_t groups, bool batch = false) {
  return {{"epsilon", 1e-5}, {"groups", groups}, {"batch", batch}};
}

void register_moments(graph::Registry& registry) {
  OpDef op;
  op.name = "channel_moments";
  op.summary = "mean and variance of each channel over all other axes";
  op.infer = infer_moments;
  op.gradient = moments_gradient;
  op.precision.rule = graph::PrecisionRule::kFollow;
  op.precision.full_outputs = 0b11;
  op.skippable_outputs = OpDef::kAllOutputs;
  op.flops = [](const OpCall& call) { return 4.0 * static_cast<double>(call.inputs[0].shape.elems()); };
  op.reference = moments_reference;
  op.tolerance = 10;
  op.samples = {{{{{7, 3}}}}, {{{{1, 5}}}}, {{{{4}}}}, {{{{2, 9, 17, 20}, 99, 101}}}, {{{{3, 300, 33}}}}};
  op.errors = {{{{DType::kF32, {0, 3}}}, {}, ErrorCode::kShapeMismatch},
               {{{DType::kF32, {}}}, {}, ErrorCode::kShapeMismatch},
               {{{DType::kI32, {2, 3}}}, {}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

void register_group_norm_row(graph::Registry& registry) {
  OpDef op = normalization_row(
      "group_norm",
      "groups of channels of each sample, or of the batch, brought to mean 0 and variance 1, times gamma, "
      "plus beta",
      false);
  op.infer = infer_group_norm;
  op.gradient = group_norm_gradient;
  op.decompose = decompose_group_norm;
  op.reference = group_norm_reference;
  const auto channels = [](int64_t count) { return InputSample{{count}}; };
  op.samples = {{{{{3, 4, 6}}}, how(2)},
                {{{{2, 3, 3, 6}}, channels(6)}, how(3)},
                {{{{2, 5, 4}, 5, 9}, channels(4), channels(4)}, how(4)},
                {{{{1, 2, 3, 2, 9}}, channels(9), channels(9)}, how(3)},
                {{{{4, 10}}, channels(10), channels(10)}, how(2)},
                {{{{7, 5}}, channels(5), channels(5)}, how(5, true)},
                {{{{3, 2, 8}}, channels(8)}, how(2, true)},
                {{{{2, 67, 15}, 99, 101}, channels(15), channels(15)}, how(3)},
                {{{{2, 150, 65}}, channels(65), channels(65)}, how(5)},
                {{{{3, 300, 33}}, channels(33), channels(33)}, how(33, true)}};
  op.errors = {{{{DType::kF32, {2, 5, 4}}}, how(3), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {2, 5, 4}}}, how(0), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {4}}}, how(2), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {2, 0, 4}}}, how(2), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {2, 5, 4}}, {DType::kF32, {5}}}, how(2), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {2, 5, 4}}, {DType::kF64, {4}}}, how(2), ErrorCode::kDtypeMismatch},
               {{{DType::kI32, {2, 5, 4}}}, how(2), ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

void register_group_norm_gradient(graph::Registry& registry) {
  OpDef op = normalization_row("group_norm_gradient",
                               "gradient of group_norm with respect to x, gamma and beta", true);
  op.infer = infer_group_norm_gradient;
  op.gradient = group_norm_second_gradient;
  op.decompose = decompose_group_norm_gradient;
  op.reference = group_norm_gradient_reference;
  const auto of = [](const Shape& x, const Shape& moments, bool scaled) {
    std::vector<InputSample> inputs{{x}, {moments}, {moments, 0.5, 2}, {x}};
    if (scaled) inputs.push_back({{x.back()}});
    return inputs;
  };
  op.samples = {{of({3, 4, 6}, {3, 2}, false), how(2)},       {of({2, 3, 3, 6}, {2, 3}, true), how(3)},
                {of({2, 5, 4}, {2, 4}, true), how(4)},        {of({4, 10}, {4, 2}, true), how(2)},
                {of({7, 5}, {5}, true), how(5, true)},        {of({3, 2, 8}, {2}, false), how(2, true)},
                {of({2, 67, 15}, {2, 3}, true), how(3)},      {of({40, 9, 3}, {40, 1}, true), how(1)},
                {of({3, 100, 33}, {33}, true), how(33, true)}};
  const auto specs = [](const Shape& x, const Shape& moments, const Shape& dy) {
    return std::vector<TensorSpec>{
        {DType::kF32, x}, {DType::kF32, moments}, {DType::kF32, moments}, {DType::kF32, dy}};
  };
  op.errors = {{specs({3, 4, 6}, {2, 3}, {3, 4, 6}), how(2), ErrorCode::kShapeMismatch},
               {specs({3, 4, 6}, {3, 2}, {3, 4, 5}), how(2), ErrorCode::kShapeMismatch},
               {specs({3, 4, 6}, {3, 4}, {3, 4, 6}), how(4), ErrorCode::kInvalidArgument}};
  registry.add(std::move(op));
}

}  // namespace

void register_group_norm(graph::Registry& registry) {
  register_moments(registry);
  register_group_norm_row(registry);
  register_group_norm_gradient(registry);
}

}  // namespace ops

namespace {

NormalizedBatch normalize(const Tensor& x, int64_t groups, bool batch, const Tensor& gamma,
                          const Tensor& beta, double epsilon) {
  static const graph::OpDef& op = ops::row("group_norm");
  require(epsilon >= 0, ErrorCode::kInvalidArgument, op.name, "epsilon must be >= 0, got {}", epsilon);
  if (!batch && ops::has_no_rows(x)) return {ops::norm_of_no_rows(x, gamma, beta), {}};
  if (is_half(x.dtype())) {
    const NormalizedBatch wide =
        normalize(ops::in_f32(x), groups, batch, ops::in_f32(gamma), ops::in_f32(beta), epsilon);
    return {cast(wide.y, x.dtype()), wide.moments};
  }
  std::vector<Tensor> inputs{x};
  if (gamma.defined()) inputs.push_back(gamma);
  if (gamma.defined() && beta.defined()) inputs.push_back(beta);
  const std::vector<Tensor> results =
      graph::apply(op, inputs, {{"epsilon", epsilon}, {"groups", groups}, {"batch", batch}});
  const Tensor& y = results[0];
  return {!gamma.defined() && beta.defined() ? y + beta : y, {results[1], results[2]}};
}

void require_samples(const Tensor& x, std::string_view where, int min_rank, std::string_view form) {
  require(x.defined() && x.rank() >= min_rank, ErrorCode::kShapeMismatch, where,
          "the input must be {}, got {}", form, x.defined() ? x.spec().str() : "an undefined tensor");
}

}  // namespace

Moments channel_moments(const Tensor& x) {
  static const graph::OpDef& op = ops::row("channel_moments");
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  const Tensor inputs[] = {is_half(x.dtype()) ? cast(x, DType::kF32) : x};
  const std::vector<Tensor> results = graph::apply(op, inputs);
  return {results[0], results[1]};
}

Tensor normalize_channels(const Tensor& x, const Moments& moments, const Tensor& gamma, const Tensor& beta,
                          double epsilon) {
  if (is_half(x.dtype())) {
    return cast(normalize_channels(ops::in_f32(x), {ops::in_f32(moments.mean), ops::in_f32(moments.variance)},
                                   ops::in_f32(gamma), ops::in_f32(beta), epsilon),
                x.dtype());
  }
  const Tensor scale = rsqrt(moments.variance + epsilon);
  const Tensor y = (x - moments.mean) * (gamma.defined() ? gamma * scale : scale);
  return beta.defined() ? y + beta : y;
}

NormalizedBatch batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  const ErrorScope scope("batch_norm");
  require_samples(x, "batch_norm", 1, "(..., C)");
  return normalize(x, x.extent(-1), true, gamma, beta, epsilon);
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta, double epsilon) {
  require_samples(x, "group_norm", 2, "(N, ..., C)");
  return normalize(x, groups, false, gamma, beta, epsilon).y;
}

Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  const ErrorScope scope("instance_norm");
  require_samples(x, "instance_norm", 2, "(N, ..., C)");
  return normalize(x, x.extent(-1), false, gamma, beta, epsilon).y;
}

}  // namespace isochron
