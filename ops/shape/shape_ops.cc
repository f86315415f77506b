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
  require(x.defined(), ErrorCode::kInvalidArgument, "reshape", "the input is undefined");
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
  require(x.defined(), ErrorCode::kInvalidArgument, "transpose", "the input is undefined");
  Dims order = permutation;
  if (order.empty()) {
    for (int i = x.rank(); i-- > 0;) order.push_back(i);
  }
  for (int64_t& axis : order) axis = normalize_axis(axis, x.rank(), "transpose");
  return graph::apply_one(op, {x}, {{"permutation", order}});
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  static const graph::OpDef& op = ops::row("broadcast_to");
  require(x.defined(), ErrorCode::kInvalidArgument, "broadcast_to", "the input is undefined");
  if (x.shape() == shape) return x;
  return graph::apply_one(op, {x}, {{"shape", static_cast<Dims>(shape)}});
}

}  // namespace isochron
