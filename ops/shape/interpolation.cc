#include "isochron/ops/shape/interpolation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/interpolation_attributes.h"

namespace isochron {
namespace ops {
namespace {

using Values = std::vector<double>;

// Interpolation along an axis is the product with a matrix. The op `interpolate_transpose` multiplies by the
// transposed matrix. Each op is the other's gradient. Attributes: axis, extent (of the result along the
// axis), and the options.

constexpr std::string_view kMethods[] = {"nearest", "linear", "cubic", "area"};

}  // namespace

ResizeOptions resize_options(const Attributes& attributes, std::string_view where) {
  const std::string& method = attributes.get<std::string>("method");
  const auto found = std::find(std::begin(kMethods), std::end(kMethods), method);
  require(found != std::end(kMethods), ErrorCode::kInvalidArgument, where,
          "the method is '{}', expected nearest, linear, cubic or area", method);
  const ResizeOptions options{static_cast<Interpolation>(found - std::begin(kMethods)),
                              attributes.get<bool>("align_corners"), attributes.get<bool>("antialias")};
  const bool plain = method == "nearest" || method == "area";
  require(!plain || !(options.align_corners || options.antialias), ErrorCode::kInvalidArgument, where,
          "{} takes neither align_corners nor antialias", method);
  require(!(options.align_corners && options.antialias), ErrorCode::kInvalidArgument, where,
          "align_corners and antialias exclude each other");
  return options;
}

namespace {

TensorSpec with_extent(const OpCall& call) {
  TensorSpec result = call.inputs[0];
  const int axis = checked_axis(call, result.shape);
  const int64_t extent = call.attributes.get<int64_t>("extent");
  require(extent > 0 && result.shape[axis] > 0, ErrorCode::kInvalidArgument, call.op.name,
          "axis {} of {} to {} elements: need at least one on either side", axis, result.str(), extent);
  result.shape[axis] = extent;
  return result;
}

std::vector<TensorSpec> infer_interpolate(const OpCall& call) {
  const ResizeOptions options = resize_options(call.attributes, call.op.name);
  if (options.interpolation != Interpolation::kNearest) require_floating(call, 0);
  return {with_extent(call)};
}

std::vector<TensorSpec> infer_interpolation_transpose(const OpCall& call) {
  resize_options(call.attributes, call.op.name);
  require_floating(call, 0);
  return {with_extent(call)};
}

/// Applies the other op, `op`, with the input's extent as its result's.
Tensor apply_back(const GradientCall& call, const OpDef& op) {
  Attributes attributes = call.attributes;
  attributes.set("extent", call.inputs[0].extent(attributes.get<int64_t>("axis")));
  return graph::apply_one(op, {call.output_gradients[0]}, attributes);
}

std::vector<Tensor> interpolate_gradient(const GradientCall& call) {
  static const OpDef& op = row("interpolate_transpose");
  return {apply_back(call, op)};
}

std::vector<Tensor> interpolation_transpose_gradient(const GradientCall& call) {
  static const OpDef& op = row("interpolate");
  return {apply_back(call, op)};
}

/// The weight of an element at a distance, by the textbook form of each filter.
double filter(const ResizeOptions& options, double distance) {
  const double x = std::abs(distance);
  if (options.interpolation == Interpolation::kLinear) return x < 1 ? 1 - x : 0;
  const double a = options.antialias ? -0.5 : -0.75;
  if (x <= 1) return (a + 2) * std::pow(x, 3) - (a + 3) * std::pow(x, 2) + 1;
  return x < 2 ? a * std::pow(x, 3) - 5 * a * std::pow(x, 2) + 8 * a * x - 4 * a : 0;
}

/// The dense matrix (to, from).
Values reference_matrix(int64_t from, int64_t to, const ResizeOptions& options) {
  Values matrix(static_cast<size_t>(from * to));
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double corners = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
  for (int64_t r = 0; r < to; ++r) {
    const double at = options.align_corners ? static_cast<double>(r) * corners
                                            : (static_cast<double>(r) + 0.5) * ratio - 0.5;
    double* weights = matrix.data() + r * from;
    if (options.interpolation == Interpolation::kNearest) {
      weights[static_cast<int64_t>(std::floor((static_cast<double>(r) + 0.5) * ratio))] = 1;
    } else if (options.interpolation == Interpolation::kArea) {
      const auto covers = [&](int64_t k) { return (k + 1) * to > r * from && k * to < (r + 1) * from; };
      for (int64_t k = 0; k < from; ++k) weights[k] = covers(k) ? 1 : 0;
      const double total = std::accumulate(weights, weights + from, 0.0);
      for (int64_t k = 0; k < from; ++k) weights[k] /= total;
    } else if (options.antialias) {
      for (int64_t k = 0; k < from; ++k)
        weights[k] = filter(options, (static_cast<double>(k) - at) / std::max(ratio, 1.0));
      const double total = std::accumulate(weights, weights + from, 0.0);
      for (int64_t k = 0; k < from; ++k) weights[k] /= total;
    } else {
      for (int64_t k = -3; k < from + 3; ++k)
        weights[std::clamp<int64_t>(k, 0, from - 1)] += filter(options, static_cast<double>(k) - at);
    }
  }
  return matrix;
}

std::vector<Values> reference(const OpCall& call, std::span<const TensorSpec> outputs,
                              const std::vector<Values>& inputs) {
  const bool transpose = call.op.name == "interpolate_transpose";
  const int axis = static_cast<int>(call.attributes.get<int64_t>("axis"));
  const Shape& in = call.inputs[0].shape;
  const Shape& out = outputs[0].shape;
  const int64_t from = transpose ? out[axis] : in[axis];
  const Values matrix =
      reference_matrix(from, transpose ? in[axis] : out[axis], resize_options(call.attributes, call.op.name));
  Values result(static_cast<size_t>(out.elems()));
  for (size_t i = 0; i < result.size(); ++i) {
    Dims at = unravel(static_cast<int64_t>(i), out);
    const int64_t r = at[axis];
    for (int64_t k = 0; k < in[axis]; ++k) {
      at[axis] = k;
      const double weight = matrix[static_cast<size_t>(transpose ? k * from + r : r * from + k)];
      result[i] += weight * inputs[0][static_cast<size_t>(ravel(at, in))];
    }
  }
  return {result};
}

double flops(const OpCall& call) {
  const double out = static_cast<double>(with_extent(call).shape.elems());
  return 4.0 * std::max(out, static_cast<double>(call.inputs[0].shape.elems()));
}

Attributes to(int64_t axis, int64_t extent, std::string method, bool align_corners = false,
              bool antialias = false) {
  return {{"axis", axis},
          {"extent", extent},
          {"method", std::move(method)},
          {"align_corners", align_corners},
          {"antialias", antialias}};
}

OpDef interpolation_row(std::string name, std::string summary) {
  OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.flops = flops;
  op.reference = reference;
  op.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
  op.tolerance = 4;
  for (const std::string method : {"nearest", "linear", "cubic", "area"}) {
    const std::vector<std::pair<int64_t, int64_t>> extents = {{4, 8}, {5, 7}, {9, 4}, {7, 1},
                                                              {1, 3}, {6, 6}, {12, 5}};
    for (const auto& [from, extent] : extents) {
      op.samples.push_back({{{{2, from, 3}}}, to(1, extent, method)});
      if (method == "nearest" || method == "area") continue;
      op.samples.push_back({{{{from, 2}}}, to(0, extent, method, true)});
      op.samples.push_back({{{{2, from}}}, to(1, extent, method, false, true)});
    }
  }
  op.samples.push_back({{{{9, 5000}}}, to(0, 14, "linear")});
  op.samples.push_back({{{{23, 5000}}}, to(0, 5, "area")});
  op.errors = {{{{DType::kF32, {2, 3}}}, to(2, 4, "linear"), ErrorCode::kOutOfRange},
               {{{DType::kF32, {2, 3}}}, to(1, 0, "linear"), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {2, 0}}}, to(1, 4, "linear"), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {2, 3}}}, to(1, 4, "quintic"), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {2, 3}}}, to(1, 4, "nearest", true), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {2, 3}}}, to(1, 4, "area", false, true), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {2, 3}}}, to(1, 4, "cubic", true, true), ErrorCode::kInvalidArgument},
               {{{DType::kI32, {2, 3}}}, to(1, 4, "linear"), ErrorCode::kDtypeMismatch}};
  return op;
}

}  // namespace

void register_interpolation(graph::Registry& registry) {
  OpDef op = interpolation_row("interpolate", "one axis at another extent, by interpolation");
  op.infer = infer_interpolate;
  op.gradient = interpolate_gradient;
  registry.add(std::move(op));

  OpDef transpose = interpolation_row("interpolate_transpose", "the transpose of interpolate: its gradient");
  transpose.infer = infer_interpolation_transpose;
  transpose.gradient = interpolation_transpose_gradient;
  registry.add(std::move(transpose));
}

}  // namespace ops

Tensor resize(const Tensor& x, const Dims& size, ResizeOptions options) {
  static const graph::OpDef& op = ops::row("interpolate");
  require(x.defined(), ErrorCode::kInvalidArgument, "resize", "the input is undefined");
  require(x.rank() >= 3, ErrorCode::kShapeMismatch, "resize",
          "{} must have axes (N, spatial axes..., C); expand_dims adds one", x.spec().str());
  require(size.rank() == x.rank() - 2, ErrorCode::kShapeMismatch, "resize",
          "size {} must have one extent for each of the {} spatial axes of {}", dims_str(size), x.rank() - 2,
          x.spec().str());
  for (const int64_t extent : size) {
    // A table of weights is computed for each axis before memory for the result is allocated.
    constexpr int64_t kMaxExtent = int64_t{1} << 24;
    require(extent <= kMaxExtent, ErrorCode::kUnsupported, "resize",
            "size {} has an extent above {}, the most that is supported", dims_str(size), kMaxExtent);
  }
  // Axes that shrink most come first, so that the others have fewer elements to process.
  std::vector<int> order(static_cast<size_t>(size.rank()));
  std::iota(order.begin(), order.end(), 0);
  const auto growth = [&](int i) {
    return static_cast<double>(size[i]) / static_cast<double>(x.shape()[i + 1]);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return growth(a) < growth(b); });
  Tensor result = x;
  for (const int i : order) {
    if (size[i] == x.shape()[i + 1] && size[i] > 0) continue;
    result = graph::apply_one(
        op, {result},
        ops::to(i + 1, size[i], std::string(ops::kMethods[static_cast<int>(options.interpolation)]),
                options.align_corners, options.antialias));
  }
  return result;
}

}  // namespace isochron
