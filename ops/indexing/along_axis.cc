#include "isochron/ops/indexing/along_axis.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

Shape with_extent(Shape shape, int axis, int64_t extent) {
  shape[axis] = extent;
  return shape;
}

std::vector<TensorSpec> infer_take(const OpCall& call) {
  require_indices(call, 1);
  const TensorSpec& x = call.inputs[0];
  const Shape& indices = call.inputs[1].shape;
  const int axis = checked_axis(call, x.shape);
  require(indices.rank() == x.shape.rank() && with_extent(indices, axis, x.shape[axis]) == x.shape,
          ErrorCode::kShapeMismatch, call.op.name, "{} and indices {} must agree but for axis {}", x.str(),
          call.inputs[1].str(), axis);
  return {{x.dtype, indices}};
}

std::vector<TensorSpec> infer_put_add(const OpCall& call) {
  require_indices(call, 1);
  require_same_shape(call, 0, 1);
  const TensorSpec& updates = call.inputs[0];
  require(updates.dtype != DType::kBool, ErrorCode::kDtypeMismatch, call.op.name,
          "is not defined on bool; cast to a number first");
  const int64_t extent = call.attributes.get<int64_t>("extent");
  require(extent >= 0, ErrorCode::kInvalidArgument, call.op.name, "extent must be >= 0, got {}", extent);
  return {{updates.dtype, with_extent(updates.shape, checked_axis(call, updates.shape), extent)}};
}

std::vector<Tensor> take_gradient(const GradientCall& call) {
  const int64_t axis = call.attributes.get<int64_t>("axis");
  return {put_add_along_axis(call.output_gradients[0], call.inputs[1], call.inputs[0].extent(axis), axis),
          Tensor()};
}

std::vector<Tensor> put_add_gradient(const GradientCall& call) {
  return {take_along_axis(call.output_gradients[0], call.inputs[1], call.attributes.get<int64_t>("axis")),
          Tensor()};
}

/// The position in `whole` of the element that index number `flat` of `part` refers to.
size_t indexed_position(const OpCall& call, size_t flat, const Shape& part, const Shape& whole,
                        const std::vector<double>& indices) {
  Dims at = unravel(static_cast<int64_t>(flat), part);
  at[static_cast<int>(call.attributes.get<int64_t>("axis"))] = static_cast<int64_t>(indices[flat]);
  return static_cast<size_t>(ravel(at, whole));
}

std::vector<std::vector<double>> take_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                const std::vector<std::vector<double>>& inputs) {
  std::vector<double> result(inputs[1].size());
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = inputs[0][indexed_position(call, i, outputs[0].shape, call.inputs[0].shape, inputs[1])];
  }
  return {result};
}

std::vector<std::vector<double>> put_add_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                   const std::vector<std::vector<double>>& inputs) {
  std::vector<double> result(static_cast<size_t>(outputs[0].shape.elems()));
  for (size_t i = 0; i < inputs[0].size(); ++i) {
    result[indexed_position(call, i, call.inputs[0].shape, outputs[0].shape, inputs[1])] += inputs[0][i];
  }
  return {result};
}

void add_take(graph::Registry& registry) {
  OpDef op;
  op.name = "take_along_axis";
  op.summary = "for each index the element it names along an axis";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_take;
  op.gradient = take_gradient;
  op.reference = take_reference;
  op.dtypes = {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kU8, DType::kBool};
  const auto axis = [](int64_t i) { return Attributes{{"axis", i}}; };
  op.samples = {{{{{3, 5}}, {{3, 4}, 0, 4, DType::kI64}}, axis(1)},
                {{{{5, 3}}, {{2, 3}, 0, 4, DType::kI32}}, axis(0)},
                {{{{2, 4, 3}}, {{2, 6, 3}, 0, 3, DType::kI64}}, axis(1)},
                {{{{7}}, {{1}, 0, 6, DType::kI32}}, axis(0)},
                {{{{5, 3}}, {{0, 3}, 0, 4, DType::kI64}}, axis(0)},
                {{{{60, 300}}, {{400, 300}, 0, 59, DType::kI32}}, axis(0)}};
  op.errors = {{{{DType::kF32, {5, 3}}, {DType::kI64, {2, 3}}}, axis(2), ErrorCode::kOutOfRange},
               {{{DType::kF32, {5, 3}}, {DType::kI64, {2, 2}}}, axis(0), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {5, 3}}, {DType::kI64, {2}}}, axis(0), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {5, 3}}, {DType::kF32, {2, 3}}}, axis(0), ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

void add_put_add(graph::Registry& registry) {
  OpDef op;
  op.name = "put_add_along_axis";
  op.summary = "zeros, to which each element is added at its index along an axis";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_put_add;
  op.gradient = put_add_gradient;
  op.reference = put_add_reference;
  op.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32};
  op.tolerance = 30;  // sums of up to 20 numbers
  const auto at = [](int64_t axis, int64_t extent) { return Attributes{{"axis", axis}, {"extent", extent}}; };
  op.samples = {{{{{3, 4}}, {{3, 4}, 0, 4, DType::kI64}}, at(1, 5)},
                {{{{6, 3}}, {{6, 3}, 0, 1, DType::kI32}}, at(0, 2)},
                {{{{2, 6, 3}}, {{2, 6, 3}, 0, 3, DType::kI64}}, at(1, 4)},
                {{{{0, 3}}, {{0, 3}, 0, 3, DType::kI64}}, at(0, 4)},
                {{{{400, 300}}, {{400, 300}, 0, 59, DType::kI32}}, at(0, 60)}};
  op.errors = {{{{DType::kF32, {4, 3}}, {DType::kI64, {4}}}, at(0, 5), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {4, 3}}, {DType::kI64, {4, 3}}}, at(0, -1), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {4, 3}}, {DType::kI64, {4, 3}}}, at(2, 5), ErrorCode::kOutOfRange},
               {{{DType::kF32, {4, 3}}, {DType::kU8, {4, 3}}}, at(0, 5), ErrorCode::kDtypeMismatch},
               {{{DType::kBool, {4, 3}}, {DType::kI64, {4, 3}}}, at(0, 5), ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

}  // namespace

void register_along_axis(graph::Registry& registry) {
  add_take(registry);
  add_put_add(registry);
}

}  // namespace ops

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis) {
  static const graph::OpDef& op = ops::row("take_along_axis");
  require(x.defined() && indices.defined(), ErrorCode::kInvalidArgument, op.name, "an input is undefined");
  require(x.rank() == indices.rank(), ErrorCode::kShapeMismatch, op.name,
          "{} needs indices of {} axes, got {}", x.spec().str(), x.rank(), indices.spec().str());
  const int at = normalize_axis(axis, x.rank(), op.name);
  const Shape rest =
      broadcast_shapes(ops::with_extent(x.shape(), at, 1), ops::with_extent(indices.shape(), at, 1), op.name);
  return graph::apply_one(op,
                          {broadcast_to(x, ops::with_extent(rest, at, x.shape()[at])),
                           broadcast_to(indices, ops::with_extent(rest, at, indices.shape()[at]))},
                          {{"axis", int64_t{at}}});
}

Tensor put_add_along_axis(const Tensor& updates, const Tensor& indices, int64_t extent, int64_t axis) {
  static const graph::OpDef& op = ops::row("put_add_along_axis");
  require(updates.defined(), ErrorCode::kInvalidArgument, op.name, "an input is undefined");
  const int64_t at = normalize_axis(axis, updates.rank(), op.name);
  return graph::apply_one(op, {updates, indices}, {{"axis", at}, {"extent", extent}});
}

Tensor put_add_along_axis(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis) {
  constexpr std::string_view kWhere = "put_add_along_axis";
  require(base.defined() && indices.defined() && updates.defined(), ErrorCode::kInvalidArgument, kWhere,
          "an input is undefined");
  require(base.dtype() == updates.dtype(), ErrorCode::kDtypeMismatch, kWhere,
          "base {} and updates {} differ; cast one of them", base.spec().str(), updates.spec().str());
  const int at = normalize_axis(axis, base.rank(), kWhere);
  Shape full = broadcast_shapes(indices.shape(), updates.shape(), kWhere);
  require(full.rank() == base.rank(), ErrorCode::kShapeMismatch, kWhere,
          "base {} needs indices and updates of {} axes, got {} and {}", base.spec().str(), base.rank(),
          indices.spec().str(), updates.spec().str());
  full = broadcast_shapes(full, ops::with_extent(base.shape(), at, full[at]), kWhere);
  require(ops::with_extent(full, at, base.shape()[at]) == base.shape(), ErrorCode::kShapeMismatch, kWhere,
          "indices {} and updates {} don't broadcast to base {} but for axis {}", indices.spec().str(),
          updates.spec().str(), base.spec().str(), at);
  return base +
         put_add_along_axis(broadcast_to(updates, full), broadcast_to(indices, full), base.shape()[at], at);
}

}  // namespace isochron
