#include "isochron/ops/normalization/normalize_by_moments.h"

#include <array>
#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::ops {
namespace {

using Values = std::vector<std::vector<double>>;

// The inputs.
constexpr size_t kX = 0, kMean = 1, kVariance = 2, kGamma = 3, kBeta = 4;

std::vector<TensorSpec> infer(const OpCall& call) {
  const TensorSpec& x = call.inputs[kX];
  require(x.dtype == DType::kF32 || x.dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "takes f32 or f64, got {}; cast it", x.str());
  require_min_rank(call, kX, 1);
  require_same_dtype(call);
  const Shape channels{x.shape.back()};
  for (size_t i = kMean; i <= kBeta; ++i) {
    require(call.inputs[i].shape == channels, ErrorCode::kShapeMismatch, call.op.name,
            "input {} must be {} for {}, got {}", i, channels.str(), x.str(), call.inputs[i].str());
  }
  return {x};
}

std::vector<Tensor> decompose(const OpCall& call, std::span<const Tensor> in) {
  return {normalize_channels(in[kX], {in[kMean], in[kVariance]}, in[kGamma], in[kBeta],
                             call.attributes.get<double>("epsilon"))};
}

/// With n = (x - mean) scale and scale = 1 / sqrt(variance + epsilon), the gradients of gamma and beta are
/// the sums of dy n and of dy, and the gradients of the moments follow from these sums. The dependence of the
/// moments on x is not included.
std::vector<Tensor> gradient(const GradientCall& call) {
  const Tensor &dy = call.output_gradients[0], &mean = call.inputs[kMean], &variance = call.inputs[kVariance];
  const auto epsilon = call.attributes.get<double>("epsilon");
  const std::vector<Tensor> sums = graph::apply(
      row("group_norm_gradient"), std::array{call.inputs[kX], mean, variance, dy, call.inputs[kGamma]},
      {{"epsilon", epsilon}, {"groups", mean.extent(0)}, {"batch", true}});
  const Tensor &of_gamma = sums[1], &of_beta = sums[2];
  const Tensor scale = rsqrt(variance + epsilon);
  const Tensor weight = call.inputs[kGamma] * scale;
  return {dy * weight, of_beta * weight * -1.0, of_gamma * weight * scale * -0.5, of_gamma, of_beta};
}

Values reference(const OpCall& call, std::span<const TensorSpec>, const Values& in) {
  const auto epsilon = call.attributes.get<double>("epsilon");
  Values out(1);
  for (size_t i = 0; i < in[kX].size(); ++i) {
    const size_t c = i % in[kMean].size();
    out[0].push_back((in[kX][i] - in[kMean][c]) / std::sqrt(in[kVariance][c] + epsilon) * in[kGamma][c] +
                     in[kBeta][c]);
  }
  return out;
}

}  // namespace

void register_normalize_by_moments(graph::Registry& registry) {
  OpDef op;
  op.name = "normalize_by_moments";
  op.summary = "channels less their means, over the roots of their variances, times gamma, plus beta";
  op.min_inputs = op.max_inputs = 5;
  op.infer = infer;
  op.gradient = gradient;
  op.decompose = decompose;
  op.reference = reference;
  op.tolerance = 20;
  const Attributes how{{"epsilon", 1e-3}};
  const auto of = [](const Shape& x) {
    const Shape channels{x.back()};
    return std::vector<InputSample>{{x}, {channels}, {channels, 0.5, 2}, {channels}, {channels}};
  };
  op.samples = {{of({7, 3}), how}, {of({2, 3, 4, 5}), how}, {of({4}), how}, {of({70, 17}), how}};
  const auto specs = [](const Shape& x, const Shape& variance, DType dtype) {
    const TensorSpec channels{dtype, {x.back()}};
    return std::vector<TensorSpec>{{dtype, x}, channels, {dtype, variance}, channels, channels};
  };
  op.errors = {{specs({7, 3}, {4}, DType::kF32), how, ErrorCode::kShapeMismatch},
               {specs({7, 3}, {3}, DType::kBF16), how, ErrorCode::kDtypeMismatch},
               {{{DType::kF32, {7, 3}},
                 {DType::kF64, {3}},
                 {DType::kF32, {3}},
                 {DType::kF32, {3}},
                 {DType::kF32, {3}}},
                how,
                ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

Tensor normalize_by_moments(const Tensor& x, const Moments& moments, const Tensor& gamma, const Tensor& beta,
                            double epsilon) {
  static const OpDef& op = row("normalize_by_moments");
  const Shape channels{x.extent(-1)};
  return graph::apply_one(
      op,
      {x, moments.mean, moments.variance, gamma.defined() ? gamma : constant(ones(channels, x.dtype())),
       beta.defined() ? beta : constant(zeros(channels, x.dtype()))},
      {{"epsilon", epsilon}});
}

}  // namespace isochron::ops
