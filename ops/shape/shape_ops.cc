#include "isochron/ops/shape/shape_ops.h"

#include <algorithm>
#include <numeric>

#include "isochron/core/base/checked.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron {
namespace ops {
namespace {

std::vector<std::vector<double>> same_elements(const OpCall&, std::span<const TensorSpec>,
                                               const std::vector<std::vector<double>>& inputs) {
  return {inputs[0]};
}

std::vector<TensorSpec> infer_reshape(const OpCall& call) {
  const Shape shape(call.attributes.get<Dims>("shape"));
  require(shape.elems() == call.inputs[0].shape.elems(), ErrorCode::kShapeMismatch, call.op.name,
          "{} has {} elements, {} would have {}", call.inputs[0].str(), call.inputs[0].shape.elems(),
          shape.str(), shape.elems());
  return {{call.inputs[0].dtype, shape}};
}

std::vector<Tensor> reshape_gradient(const GradientCall& call) {
  return {reshape(call.output_gradients[0], call.inputs[0].shape())};
}

std::vector<TensorSpec> infer_transpose(const OpCall& call) {
  const Dims& permutation = call.attributes.get<Dims>("permutation");
  const Shape& shape = call.inputs[0].shape;
  Dims sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  Dims identity;
  for (int i = 0; i < shape.rank(); ++i) identity.push_back(i);
  require(sorted == identity, ErrorCode::kInvalidArgument, call.op.name,
          "{} is not a permutation of the {} axes of {}", dims_str(permutation), shape.rank(),
          call.inputs[0].str());
  Shape result = shape;
  for (int i = 0; i < shape.rank(); ++i) result[i] = shape[static_cast<int>(permutation[i])];
  return {{call.inputs[0].dtype, result}};
}

std::vector<Tensor> transpose_gradient(const GradientCall& call) {
  const Dims& permutation = call.attributes.get<Dims>("permutation");
  Dims inverse = permutation;
  for (int i = 0; i < permutation.rank(); ++i) inverse[static_cast<int>(permutation[i])] = i;
  return {transpose(call.output_gradients[0], inverse)};
}

std::vector<std::vector<double>> transpose_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                     const std::vector<std::vector<double>>& inputs) {
  const Dims& permutation = call.attributes.get<Dims>("permutation");
  const Strides from = contiguous_strides(call.inputs[0].shape);
  const Shape& shape = outputs[0].shape;
  std::vector<double> result(inputs[0].size());
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i);
    int64_t offset = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * from[static_cast<int>(permutation[axis])];
      rest /= shape[axis];
    }
    result[i] = inputs[0][static_cast<size_t>(offset)];
  }
  return {result};
}

std::vector<TensorSpec> infer_broadcast_to(const OpCall& call) {
  const Shape shape(call.attributes.get<Dims>("shape"));
  const Shape& from = call.inputs[0].shape;
  bool fits = from.rank() <= shape.rank();
  for (int i = 0; fits && i < from.rank(); ++i) {
    const int64_t extent = shape[i + shape.rank() - from.rank()];
    fits = from[i] == extent || from[i] == 1;
  }
  require(fits, ErrorCode::kShapeMismatch, call.op.name, "{} does not broadcast to {}", call.inputs[0].str(),
          shape.str());
  return {{call.inputs[0].dtype, shape}};
}

std::vector<Tensor> broadcast_gradient(const GradientCall& call) {
  return {sum_to(call.output_gradients[0], call.inputs[0].shape())};
}

std::vector<std::vector<double>> broadcast_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                     const std::vector<std::vector<double>>& inputs) {
  const Shape& from = call.inputs[0].shape;
  const Shape& shape = outputs[0].shape;
  const Strides strides = broadcast_strides(from, contiguous_strides(from), shape);
  std::vector<double> result(static_cast<size_t>(shape.elems()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i);
    int64_t offset = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    result[i] = inputs[0][static_cast<size_t>(offset)];
  }
  return {result};
}

}  // namespace

void register_shapes(graph::Registry& registry) {
  OpDef reshape_op;
  reshape_op.name = "reshape";
  reshape_op.summary = "the same elements under another shape";
  reshape_op.infer = infer_reshape;
  reshape_op.gradient = reshape_gradient;
  reshape_op.fusion = graph::FusionClass::kView;
  reshape_op.dtypes = any_dtype();
  reshape_op.samples = {{{{{2, 6}}}, {{"shape", Dims{3, 4}}}},
                        {{{{1}}}, {{"shape", Dims{}}}},
                        {{{{0, 3}}}, {{"shape", Dims{5, 0}}}}};
  reshape_op.errors = {{{{DType::kF32, {2, 3}}}, {{"shape", Dims{4}}}, ErrorCode::kShapeMismatch}};
  reshape_op.reference = same_elements;
  registry.add(std::move(reshape_op));

  OpDef stop;
  stop.name = "stop_gradient";
  stop.summary = "the value, with no gradient through it";
  stop.infer = infer_same;
  stop.gradient = no_gradient;
  stop.fusion = graph::FusionClass::kView;
  stop.dtypes = any_dtype();
  stop.samples = {{{{{2, 6}}}}};
  stop.reference = same_elements;
  registry.add(std::move(stop));

  OpDef full;
  full.name = "full_precision";
  full.summary = "the value, which mixed precision stores in f32";
  full.infer = infer_same;
  full.gradient = [](const GradientCall& call) {
    return std::vector<Tensor>{graph::apply_one(call.op, {call.output_gradients[0]})};
  };
  full.fusion = graph::FusionClass::kView;
  full.dtypes = any_dtype();
  full.samples = {{{{{2, 6}}}}};
  full.reference = same_elements;
  registry.add(std::move(full));

  OpDef transpose_op;
  transpose_op.name = "transpose";
  transpose_op.summary = "axes in another order";
  transpose_op.infer = infer_transpose;
  transpose_op.gradient = transpose_gradient;
  transpose_op.precision.rule = graph::PrecisionRule::kMoves;
  transpose_op.dtypes = any_dtype();
  transpose_op.samples = {{{{{3, 5}}}, {{"permutation", Dims{1, 0}}}},
                          {{{{2, 3, 4}}}, {{"permutation", Dims{2, 0, 1}}}},
                          {{{{2, 3, 4, 5}}}, {{"permutation", Dims{0, 2, 1, 3}}}},
                          {{{{70, 50}}}, {{"permutation", Dims{1, 0}}}},
                          {{{{0, 5}}}, {{"permutation", Dims{1, 0}}}},
                          {{{{}}}, {{"permutation", Dims{}}}}};
  transpose_op.errors = {
      {{{DType::kF32, {2, 3}}}, {{"permutation", Dims{0, 0}}}, ErrorCode::kInvalidArgument},
      {{{DType::kF32, {2, 3}}}, {{"permutation", Dims{0}}}, ErrorCode::kInvalidArgument}};
  transpose_op.reference = transpose_reference;
  registry.add(std::move(transpose_op));

  OpDef broadcast;
  broadcast.name = "broadcast_to";
  broadcast.summary = "repeats along axes of extent one";
  broadcast.infer = infer_broadcast_to;
  broadcast.gradient = broadcast_gradient;
  broadcast.fusion = graph::FusionClass::kElementwise;
  broadcast.element = graph::ElementOp::kCopy;
  broadcast.dtypes = any_dtype();
  broadcast.samples = {{{{{3, 1}}}, {{"shape", Dims{3, 4}}}},
                       {{{{}}}, {{"shape", Dims{2, 2}}}},
                       {{{{5}}}, {{"shape", Dims{7, 5}}}},
                       {{{{2, 1, 3}}}, {{"shape", Dims{2, 4, 3}}}}};
  broadcast.errors = {{{{DType::kF32, {2}}}, {{"shape", Dims{3}}}, ErrorCode::kShapeMismatch},
                      {{{DType::kF32, {2, 1}}}, {{"shape", Dims{2}}}, ErrorCode::kShapeMismatch}};
  broadcast.reference = broadcast_reference;
  registry.add(std::move(broadcast));
}

}  // namespace ops

Tensor reshape(const Tensor& x, const Dims& shape) {
  static const graph::OpDef& op = ops::row("reshape");
  ops::require_defined(x, "reshape");
  Dims full = shape;
  int inferred = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1) {
      known = checked_mul(known, shape[i], "reshape");
      continue;
    }
    require(inferred < 0, ErrorCode::kInvalidArgument, "reshape", "{} has more than one -1", dims_str(shape));
    inferred = i;
  }
  if (inferred >= 0) {
    require(known > 0 && x.elems() % known == 0, ErrorCode::kShapeMismatch, "reshape",
            "{} does not divide into {}", x.spec().str(), dims_str(shape));
    full[inferred] = x.elems() / known;
  }
  if (static_cast<const Dims&>(x.shape()) == full) return x;
  return graph::apply_one(op, {x}, {{"shape", full}});
}

Tensor transpose(const Tensor& x, const Dims& permutation) {
  static const graph::OpDef& op = ops::row("transpose");
  ops::require_defined(x, "transpose");
  Dims order = permutation;
  if (order.empty()) {
    for (int i = x.rank(); i-- > 0;) order.push_back(i);
  }
  for (int64_t& axis : order) axis = normalize_axis(axis, x.rank(), "transpose");
  return graph::apply_one(op, {x}, {{"permutation", order}});
}

Tensor swap_axes(const Tensor& x, int64_t a, int64_t b) {
  const ErrorScope scope("swap_axes");
  ops::require_defined(x, "swap_axes");
  Dims order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[normalize_axis(a, x.rank(), "swap_axes")], order[normalize_axis(b, x.rank(), "swap_axes")]);
  return transpose(x, order);
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  ops::require_defined(x, "flatten");
  if (x.rank() == 0) return reshape(x, {1});
  const int from = normalize_axis(first, x.rank(), "flatten"), to = normalize_axis(last, x.rank(), "flatten");
  require(from <= to, ErrorCode::kInvalidArgument, "flatten", "axis {} comes after axis {} of {}", from, to,
          x.spec().str());
  Dims shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i <= from || i > to) {
      shape.push_back(x.shape()[i]);
    } else {
      shape[from] = checked_mul(shape[from], x.shape()[i], "flatten");
    }
  }
  return reshape(x, shape);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors) {
  const ErrorScope scope("meshgrid");
  require(!vectors.empty() && vectors.size() <= static_cast<size_t>(kMaxRank), ErrorCode::kInvalidArgument,
          "meshgrid", "expected 1 to {} vectors, got {}", kMaxRank, vectors.size());
  Dims shape;
  for (const Tensor& vector : vectors) {
    ops::require_defined(vector, "meshgrid");
    require(vector.rank() == 1, ErrorCode::kShapeMismatch, "meshgrid", "expected vectors, got {}",
            vector.spec().str());
    shape.push_back(vector.extent(0));
  }
  std::vector<Tensor> result;
  for (size_t i = 0; i < vectors.size(); ++i) {
    Dims along;
    for (size_t axis = 0; axis < vectors.size(); ++axis) along.push_back(axis == i ? -1 : 1);
    result.push_back(broadcast_to(reshape(vectors[i], along), Shape(shape)));
  }
  return result;
}

namespace {

void require_images(const Tensor& x, int64_t r, const char* where) {
  ops::require_defined(x, where);
  require(r >= 1, ErrorCode::kInvalidArgument, where, "the factor must be >= 1, got {}", r);
  require(x.rank() == 4, ErrorCode::kShapeMismatch, where, "expected (N, H, W, C), got {}", x.spec().str());
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t r) {
  const ErrorScope scope("pixel_shuffle");
  require_images(x, r, "pixel_shuffle");
  const int64_t n = x.extent(0), h = x.extent(1), w = x.extent(2), c = x.extent(3);
  require(c % checked_mul(r, r, "pixel_shuffle") == 0, ErrorCode::kShapeMismatch, "pixel_shuffle",
          "{} channels of {} are no multiple of {}", c, x.spec().str(), r * r);
  const Tensor blocks = transpose(reshape(x, {n, h, w, c / (r * r), r, r}), {0, 1, 4, 2, 5, 3});
  return reshape(blocks, {n, h * r, w * r, c / (r * r)});
}

Tensor pixel_unshuffle(const Tensor& x, int64_t r) {
  const ErrorScope scope("pixel_unshuffle");
  require_images(x, r, "pixel_unshuffle");
  const int64_t n = x.extent(0), h = x.extent(1), w = x.extent(2), c = x.extent(3);
  require(h % r == 0 && w % r == 0, ErrorCode::kShapeMismatch, "pixel_unshuffle",
          "height and width of {} must be multiples of {}", x.spec().str(), r);
  const Tensor blocks = transpose(reshape(x, {n, h / r, r, w / r, r, c}), {0, 1, 3, 5, 2, 4});
  return reshape(blocks, {n, h / r, w / r, checked_mul(c, r * r, "pixel_unshuffle")});
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  static const graph::OpDef& op = ops::row("broadcast_to");
  ops::require_defined(x, "broadcast_to");
  if (x.shape() == shape) return x;
  return graph::apply_one(op, {x}, {{"shape", static_cast<Dims>(shape)}});
}

}  // namespace isochron
