#include "isochron/ops/reduction/distances.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/elementwise/root.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/matmul/matmul_geometry.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {
namespace {

std::vector<TensorSpec> infer_squared_distances(const OpCall& call) {
  require_same_dtype(call);
  require_floating(call);
  require_min_rank(call, 0, 2);
  require_min_rank(call, 1, 2);
  const Shape &a = call.inputs[0].shape, &b = call.inputs[1].shape;
  require(a.back() == b.back(), ErrorCode::kShapeMismatch, call.op.name,
          "expected rows of one length, got {} and {}", call.inputs[0].str(), call.inputs[1].str());
  Shape shape = broadcast_shapes(matmul_batch(a), matmul_batch(b), call.op.name);
  shape.push_back(a[a.rank() - 2]);
  shape.push_back(b[b.rank() - 2]);
  return {{call.inputs[0].dtype, shape}};
}

/// The differences are computed where they are summed, and never stored.
std::vector<Tensor> decompose_squared_distances(const OpCall&, std::span<const Tensor> in) {
  return {sum(square(expand_dims(in[0], -2) - expand_dims(in[1], -3)), {-1})};
}

/// da_i = 2 (a_i sum_j g_ij - sum_j g_ij b_j), and similarly for b: matrix products. With the differences
/// instead, N M D elements would have to be saved in the forward pass or recomputed.
std::vector<Tensor> squared_distances_gradient(const GradientCall& call) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &g = call.output_gradients[0];
  std::vector<Tensor> result(2);
  if (call.needed[0]) result[0] = sum_to((a * sum(g, {-1}, true) - matmul(g, b)) * 2.0, a.shape());
  if (call.needed[1]) {
    const Tensor of_b = expand_dims(sum(g, {-2}), -1);
    result[1] = sum_to((b * of_b - matmul(g, a, true)) * 2.0, b.shape());
  }
  return result;
}

std::vector<std::vector<double>> squared_distances_reference(const OpCall& call,
                                                             std::span<const TensorSpec> outputs,
                                                             const std::vector<std::vector<double>>& inputs) {
  const Shape &out = outputs[0].shape, &a = call.inputs[0].shape, &b = call.inputs[1].shape;
  const int64_t width = a.back(), n = out[out.rank() - 2], m = out.back();
  const Shape batch = matmul_batch(out), of_a = matmul_batch(a), of_b = matmul_batch(b);
  const Strides a_strides = broadcast_strides(of_a, contiguous_strides(of_a), batch),
                b_strides = broadcast_strides(of_b, contiguous_strides(of_b), batch);
  std::vector<double> result;
  for (int64_t i = 0; i < out.elems(); ++i) {
    const Dims at = unravel(i, out);
    int64_t row_of_a = 0, row_of_b = 0;
    for (int axis = 0; axis < batch.rank(); ++axis) {
      row_of_a += at[axis] * a_strides[axis] * n;
      row_of_b += at[axis] * b_strides[axis] * m;
    }
    row_of_a += at[out.rank() - 2];
    row_of_b += at[out.rank() - 1];
    double sum = 0;
    for (int64_t k = 0; k < width; ++k) {
      const double difference = inputs[0][static_cast<size_t>(row_of_a * width + k)] -
                                inputs[1][static_cast<size_t>(row_of_b * width + k)];
      sum += difference * difference;
    }
    result.push_back(sum);
  }
  return {result};
}

}  // namespace

void register_distances(graph::Registry& registry) {
  OpDef op;
  op.name = "squared_distances";
  op.summary = "the squared distance of each row of a matrix from each of another";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_squared_distances;
  op.gradient = squared_distances_gradient;
  op.decompose = decompose_squared_distances;
  op.reference = squared_distances_reference;
  op.dtypes = {DType::kF64, DType::kF32};
  op.tolerance = 20;
  op.samples = {{{{{3, 5}}, {{4, 5}}}},    {{{{2, 3, 5}}, {{4, 5}}}}, {{{{2, 1, 3, 2}}, {{3, 4, 2}}}},
                {{{{1, 1}}, {{1, 1}}}},    {{{{0, 3}}, {{4, 3}}}},    {{{{3, 0}}, {{2, 0}}}},
                {{{{70, 33}}, {{60, 33}}}}};
  op.errors = {{{{DType::kF32, {3, 5}}, {DType::kF32, {4, 6}}}, {}, ErrorCode::kShapeMismatch},
               {{{DType::kF32, {5}}, {DType::kF32, {4, 5}}}, {}, ErrorCode::kShapeMismatch},
               {{{DType::kF32, {3, 5}}, {DType::kF64, {4, 5}}}, {}, ErrorCode::kDtypeMismatch},
               {{{DType::kI32, {3, 5}}, {DType::kI32, {4, 5}}}, {}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

}  // namespace ops

namespace {

void require_epsilon(double epsilon, std::string_view where) {
  require(epsilon > 0, ErrorCode::kInvalidArgument, where, "epsilon must be > 0, got {}", epsilon);
}

Tensor in_f32(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::kF32) : x; }

}  // namespace

Tensor normalize(const Tensor& x, double p, int64_t axis, double epsilon) {
  const ErrorScope scope("normalize");
  ops::require_defined(x, "normalize");
  require_epsilon(epsilon, "normalize");
  const Tensor wide = in_f32(x);
  return cast(wide / maximum(norm(wide, p, {axis}, true), epsilon), x.dtype());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis, double epsilon) {
  const ErrorScope scope("cosine_similarity");
  ops::require_defined(a, "cosine_similarity");
  ops::require_defined(b, "cosine_similarity");
  require_epsilon(epsilon, "cosine_similarity");
  const auto unit = [&](const Tensor& x) { return normalize(in_f32(x), 2, axis, epsilon); };
  require(a.dtype() == b.dtype(), ErrorCode::kDtypeMismatch, "cosine_similarity",
          "{} and {} differ; cast one", a.spec().str(), b.spec().str());
  return cast(sum(unit(a) * unit(b), {axis}), a.dtype());
}

Tensor pairwise_distances(const Tensor& a, const Tensor& b, double p) {
  const ErrorScope scope("pairwise_distances");
  ops::require_defined(a, "pairwise_distances");
  ops::require_defined(b, "pairwise_distances");
  require(a.rank() >= 2 && b.rank() >= 2 && a.extent(-1) == b.extent(-1), ErrorCode::kShapeMismatch,
          "pairwise_distances", "expected rows of one length, (..., N, D) and (..., M, D), got {} and {}",
          a.spec().str(), b.spec().str());
  if (p != 2) return norm(expand_dims(a, -2) - expand_dims(b, -3), p, {-1});
  static const graph::OpDef& op = ops::row("squared_distances");
  return cast(ops::root(graph::apply_one(op, {in_f32(a), in_f32(b)})), a.dtype());
}

}  // namespace isochron
