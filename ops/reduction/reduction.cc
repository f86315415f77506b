#include "isochron/ops/reduction/reduction.h"

#include <cmath>
#include <limits>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/elementwise/root.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/held_numbers.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {
namespace {

using graph::ReduceKind;

std::vector<TensorSpec> infer_reduction(const OpCall& call) {
  const TensorSpec& in = call.inputs[0];
  require(in.dtype != DType::kBool, ErrorCode::kDtypeMismatch, call.op.name,
          "is not defined on bool; cast to a number first");
  const bool extreme = call.op.reduce == ReduceKind::kMax || call.op.reduce == ReduceKind::kMin;
  require(call.op.reduce != ReduceKind::kMean || is_floating(in.dtype), ErrorCode::kDtypeMismatch,
          call.op.name, "of {} would be cut to a whole number; cast to f32 first", dtype_name(in.dtype));
  require(in.dtype != DType::kU8 || extreme, ErrorCode::kDtypeMismatch, call.op.name,
          "of u8 would be cut to 8 bits; cast to i64 first");
  const Axes& axes = call.attributes.get<Dims>("axes");
  require(normalize_axes(axes, in.shape.rank(), call.op.name) == axes || in.shape.rank() == 0,
          ErrorCode::kInvalidArgument, call.op.name, "axes {} are not normalized", dims_str(axes));
  return {{in.dtype, reduced_shape(in.shape, axes, call.attributes.get<bool>("keep_dims"))}};
}

double reduction_flops(const OpCall& call) { return static_cast<double>(call.inputs[0].shape.elems()); }

/// `tensor`, a reduction over the call's axes, with these axes restored with extent 1.
Tensor with_axes(const GradientCall& call, const Tensor& tensor) {
  const Shape kept = reduced_shape(call.inputs[0].shape(), call.attributes.get<Dims>("axes"), true);
  return reshape(tensor, kept);
}

std::vector<Tensor> sum_gradient(const GradientCall& call) {
  return {broadcast_to(with_axes(call, call.output_gradients[0]), call.inputs[0].shape())};
}

/// The dtype for counts of elements. 16-bit floats can't represent counts above 65,504 and represent their
/// inverses badly.
DType counting(DType dtype) { return is_half(dtype) ? DType::kF32 : dtype; }

std::vector<Tensor> mean_gradient(const GradientCall& call) {
  const double count =
      static_cast<double>(call.inputs[0].elems()) / static_cast<double>(call.outputs[0].elems());
  const DType dtype = call.inputs[0].dtype();
  const Tensor flowing = cast(with_axes(call, call.output_gradients[0]), counting(dtype));
  return {broadcast_to(cast(flowing * (1.0 / count), dtype), call.inputs[0].shape())};
}

std::vector<Tensor> extreme_gradient(const GradientCall& call) {
  const Tensor& x = call.inputs[0];
  const DType wide = counting(x.dtype());
  const Tensor ties = equal(x, with_axes(call, call.outputs[0]));
  const Tensor count = sum(cast(ties, wide), call.attributes.get<Dims>("axes"), true);
  const Tensor share = cast(with_axes(call, call.output_gradients[0]), wide) / count;
  return {cast(ties, x.dtype()) * cast(share, x.dtype())};
}

std::vector<Tensor> prod_gradient(const GradientCall& call) {
  // Exact even if an element is 0, unlike out / x. The product of all elements except x is the product of all
  // nonzero elements, divided by x if x isn't 0, times the other zeros. The zeros are written as sums of at
  // most two, so that the second gradient reaches them.
  const Tensor& x = call.inputs[0];
  const Axes& axes = call.attributes.get<Dims>("axes");
  const Tensor zero = equal(x, scalar(0, x.dtype()));
  const Tensor zeros_count = sum(cast(zero, x.dtype()), axes, true);
  const auto zeros_are = [&](double count) {
    return cast(equal(zeros_count, scalar(count, x.dtype())), x.dtype());
  };
  const Tensor zeros_sum = sum(where(zero, x, scalar(0, x.dtype())), axes, true);
  const Tensor safe = where(zero, scalar(1, x.dtype()), x);
  const Tensor others = prod(safe, axes, true) / safe;
  const Tensor of_a_zero = zeros_are(1) + zeros_are(2) * (zeros_sum - x);
  const Tensor of_another = zeros_are(0) + zeros_are(1) * zeros_sum;
  return {with_axes(call, call.output_gradients[0]) * (others * where(zero, of_a_zero, of_another))};
}

std::vector<std::vector<double>> reduction_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                     const std::vector<std::vector<double>>& inputs) {
  const Shape& shape = call.inputs[0].shape;
  const Axes& axes = call.attributes.get<Dims>("axes");
  const Shape kept = reduced_shape(shape, axes, true);
  const Strides strides = broadcast_strides(kept, contiguous_strides(kept), shape);
  const double infinity = std::numeric_limits<double>::infinity();
  const ReduceKind kind = call.op.reduce;
  const double identity = kind == ReduceKind::kProd  ? 1
                          : kind == ReduceKind::kMax ? -infinity
                          : kind == ReduceKind::kMin ? infinity
                                                     : 0;
  std::vector<double> result(static_cast<size_t>(outputs[0].shape.elems()), identity);
  for (int64_t i = 0; i < shape.elems(); ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    double& into = result[static_cast<size_t>(offset)];
    const double value = inputs[0][static_cast<size_t>(i)];
    into = kind == ReduceKind::kProd  ? into * value
           : kind == ReduceKind::kMax ? std::max(into, value)
           : kind == ReduceKind::kMin ? std::min(into, value)
                                      : into + value;
  }
  if (kind == ReduceKind::kMean) {
    for (double& value : result)
      value /= static_cast<double>(shape.elems()) / static_cast<double>(result.size());
  }
  return {result};
}

void add_reduction(graph::Registry& registry, ReduceKind kind, std::string_view summary,
                   std::vector<Tensor> (*gradient)(const GradientCall&)) {
  OpDef op;
  op.name = graph::reduce_kind_name(kind);
  op.summary = summary;
  op.infer = infer_reduction;
  op.gradient = gradient;
  op.fusion = graph::FusionClass::kReduction;
  op.reduce = kind;
  op.flops = reduction_flops;
  op.reference = reduction_reference;
  op.dtypes = {DType::kF64, DType::kF32, DType::kBF16};
  if (kind != ReduceKind::kMean) op.dtypes.push_back(DType::kI64);
  op.tolerance = 20;  // sums of up to 6,000 numbers
  const double low = kind == ReduceKind::kProd ? 0.8 : -2;
  const double high = kind == ReduceKind::kProd ? 1.2 : 2;
  const std::pair<Shape, Axes> cases[] = {
      {{3, 5}, {0, 1}},       {{3, 5}, {0}},       {{3, 5}, {1}},   {{4, 3, 5}, {1}}, {{4, 3, 5}, {0, 2}},
      {{2, 3, 4, 5}, {1, 3}}, {{2, 3, 4, 5}, {0}}, {{7}, {0}},      {{}, {}},         {{37, 10}, {0}},
      {{3, 2000}, {1}},       {{1500, 3}, {0}},    {{2, 1, 3}, {1}}};
  for (const auto& [shape, axes] : cases) {
    for (const bool keep : {false, true}) {
      op.samples.push_back({{{shape, low, high}}, {{"axes", axes}, {"keep_dims", keep}}});
    }
  }
  op.errors.push_back(
      {{{DType::kF32, {2, 3}}}, {{"axes", Dims{2}}, {"keep_dims", false}}, ErrorCode::kOutOfRange});
  op.errors.push_back(
      {{{DType::kF32, {2, 3}}}, {{"axes", Dims{1, 1}}, {"keep_dims", false}}, ErrorCode::kInvalidArgument});
  op.errors.push_back(
      {{{DType::kBool, {2}}}, {{"axes", Dims{0}}, {"keep_dims", false}}, ErrorCode::kDtypeMismatch});
  if (kind == ReduceKind::kMean)
    op.errors.push_back(
        {{{DType::kI64, {2}}}, {{"axes", Dims{0}}, {"keep_dims", false}}, ErrorCode::kDtypeMismatch});
  registry.add(std::move(op));
}

Tensor reduce(const OpDef& op, const Tensor& x, const Axes& axes, bool keep_dims) {
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  return graph::apply_one(op, {x},
                          {{"axes", normalize_axes(axes, x.rank(), op.name)}, {"keep_dims", keep_dims}});
}

}  // namespace

void register_reductions(graph::Registry& registry) {
  add_reduction(registry, ReduceKind::kSum, "sum over axes", sum_gradient);
  add_reduction(registry, ReduceKind::kMean, "arithmetic mean over axes", mean_gradient);
  add_reduction(registry, ReduceKind::kMax, "largest element over axes", extreme_gradient);
  add_reduction(registry, ReduceKind::kMin, "smallest element over axes", extreme_gradient);
  add_reduction(registry, ReduceKind::kProd, "product over axes", prod_gradient);
}

}  // namespace ops

#define ISOCHRON_REDUCTION(name)                                   \
  Tensor name(const Tensor& x, const Axes& axes, bool keep_dims) { \
    static const graph::OpDef& op = ops::row(#name);               \
    return ops::reduce(op, x, axes, keep_dims);                    \
  }
ISOCHRON_REDUCTION(sum)
ISOCHRON_REDUCTION(mean)
ISOCHRON_REDUCTION(max)
ISOCHRON_REDUCTION(min)
ISOCHRON_REDUCTION(prod)
#undef ISOCHRON_REDUCTION

Tensor variance(const Tensor& x, const Axes& axes, bool keep_dims, int64_t correction) {
  const ErrorScope scope("variance");
  require(correction >= 0, ErrorCode::kInvalidArgument, "variance", "correction must be >= 0, got {}",
          correction);
  if (is_half(x.dtype()))  // which holds neither the mean nor the squares well enough
    return cast(variance(cast(x, DType::kF32), axes, keep_dims, correction), x.dtype());
  // A mean that is large compared with the deviations has a rounding error as large as these.
  const Tensor nearly_centered = x - mean(x, axes, true);
  const Tensor biased = mean(square(nearly_centered - mean(nearly_centered, axes, true)), axes, keep_dims);
  if (correction == 0) return biased;
  const int64_t count = biased.elems() == 0 ? 0 : x.elems() / biased.elems();
  require(count > correction, ErrorCode::kInvalidArgument, "variance",
          "{} elements, correction {}: need more elements", count, correction);
  return biased * (static_cast<double>(count) / static_cast<double>(count - correction));
}

namespace {

Tensor is_nonzero(const Tensor& x, std::string_view where) {
  require(x.defined(), ErrorCode::kInvalidArgument, where, "the input is undefined");
  return cast(stop_gradient(x), DType::kBool);
}

}  // namespace

Tensor standard_deviation(const Tensor& x, const Axes& axes, bool keep_dims, int64_t correction) {
  const ErrorScope scope("standard_deviation");
  if (is_half(x.dtype())) {
    return cast(standard_deviation(cast(x, DType::kF32), axes, keep_dims, correction), x.dtype());
  }
  return ops::root(variance(x, axes, keep_dims, correction));
}

Tensor norm(const Tensor& x, double p, const Axes& axes, bool keep_dims) {
  const ErrorScope scope("norm");
  require(x.defined(), ErrorCode::kInvalidArgument, "norm", "the input is undefined");
  require(is_floating(x.dtype()), ErrorCode::kDtypeMismatch, "norm", "takes floating dtypes, got {}; cast it",
          x.spec().str());
  require(p >= 1, ErrorCode::kInvalidArgument, "norm", "p must be >= 1, got {}", p);
  if (is_half(x.dtype())) return cast(norm(cast(x, DType::kF32), p, axes, keep_dims), x.dtype());
  const Tensor sizes = abs(x);
  if (p == 1) return sum(sizes, axes, keep_dims);
  const Tensor largest = maximum(max(sizes, axes, true), 0.0);  // 0 if there are no elements
  const auto result = [&](const Tensor& kept) { return keep_dims ? kept : squeeze(kept, axes); };
  if (p > ops::largest_finite(x.dtype())) return result(largest);
  // Elements are divided by the largest one, so that no power overflows or underflows. The norm is
  // proportional to its elements, so the gradient needn't go through the scale.
  const Tensor usable = logical_and(largest > 0.0, is_finite(largest));
  const Tensor scale = stop_gradient(where(usable, largest, scalar(1, x.dtype())));
  const Tensor scaled = sizes / scale;
  if (p == 2) return result(ops::root(sum(square(scaled), axes, true)) * scale);
  const Tensor powers = sum(pow(scaled, p), axes, true);
  const Tensor zero = powers <= 0.0;
  return result(where(zero, powers, pow(where(zero, scalar(1, x.dtype()), powers), 1 / p)) * scale);
}

Tensor any(const Tensor& x, const Axes& axes, bool keep_dims) {
  const ErrorScope scope("any");
  const Tensor largest = max(cast(is_nonzero(x, "any"), DType::kI32), axes, keep_dims);
  return largest > 0.0;  // without elements, `largest` is the lowest number
}

Tensor all(const Tensor& x, const Axes& axes, bool keep_dims) {
  const ErrorScope scope("all");
  return cast(min(cast(is_nonzero(x, "all"), DType::kI32), axes, keep_dims), DType::kBool);
}

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keep_dims) {
  const ErrorScope scope("count_nonzero");
  return sum(cast(is_nonzero(x, "count_nonzero"), DType::kI64), axes, keep_dims);
}

}  // namespace isochron
