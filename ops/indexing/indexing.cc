#include "isochron/ops/indexing/indexing.h"

#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using graph::Attributes;

constexpr std::initializer_list<DType> kNumbers = {DType::kF64,  DType::kF32, DType::kF16,
                                                   DType::kBF16, DType::kI64, DType::kI32};

/// `shape` with `axis` replaced by the axes of `by`.
Shape replace_axis(const Shape& shape, int axis, const Shape& by) {
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(shape[i]);
  for (const int64_t extent : by) result.push_back(extent);
  for (int i = axis + 1; i < shape.rank(); ++i) result.push_back(shape[i]);
  return result;
}

std::vector<TensorSpec> infer_gather(const OpCall& call) {
  require_indices(call, 1);
  const TensorSpec& x = call.inputs[0];
  require(x.shape.rank() + call.inputs[1].shape.rank() <= kMaxRank + 1, ErrorCode::kInvalidArgument,
          call.op.name, "{} at indices {} would exceed {} axes", x.str(), call.inputs[1].str(), kMaxRank);
  return {{x.dtype, replace_axis(x.shape, checked_axis(call, x.shape), call.inputs[1].shape)}};
}

/// `updates` has the shape that `gather` returns; the result has the shape of the tensor that `gather` reads.
std::vector<TensorSpec> infer_scatter_add(const OpCall& call) {
  require_indices(call, 1);
  const TensorSpec& updates = call.inputs[0];
  const Shape& indices = call.inputs[1].shape;
  require(updates.dtype != DType::kBool, ErrorCode::kDtypeMismatch, call.op.name,
          "is not defined on bool; cast to a number first");
  const int64_t axis = call.attributes.get<int64_t>("axis");
  const int64_t extent = call.attributes.get<int64_t>("extent");
  require(extent >= 0, ErrorCode::kInvalidArgument, call.op.name, "extent must be >= 0, got {}", extent);
  require(axis >= 0 && axis + indices.rank() <= updates.shape.rank(), ErrorCode::kOutOfRange, call.op.name,
          "axis {} of updates {} with indices {}", axis, updates.str(), indices.str());
  Shape shape;
  for (int i = 0; i < updates.shape.rank(); ++i) {
    const int64_t within = i - axis;
    if (within == 0) shape.push_back(extent);
    if (within >= 0 && within < indices.rank()) {
      require(updates.shape[i] == indices[static_cast<int>(within)], ErrorCode::kShapeMismatch, call.op.name,
              "updates {} don't hold indices {} at axis {}", updates.str(), indices.str(), axis);
    } else {
      shape.push_back(updates.shape[i]);
    }
  }
  if (axis == updates.shape.rank()) shape.push_back(extent);  // a scalar index on the last axis
  return {{updates.dtype, shape}};
}

/// Along axis 0 there may be two more attributes: `padding`, the number of a slice that gets no gradient, and
/// `sparse` (ops/indexing/embedding.h).
std::vector<Tensor> gather_gradient(const GradientCall& call) {
  const int64_t axis = call.attributes.get<int64_t>("axis");
  const int64_t extent = call.inputs[0].extent(axis);
  const Tensor& updates = call.output_gradients[0];
  if (axis != 0) return {scatter_add(updates, call.inputs[1], extent, axis), Tensor()};
  const RowGradient gradient{call.inputs[1], updates, call.attributes.get_or<int64_t>("padding", -1),
                             call.attributes.get_or("sparse", false)};
  return {dense_gradient(gradient, extent), Tensor()};
}

/// `updates` must have the shape that `gather` of the base returns.
std::vector<TensorSpec> infer_scatter(const OpCall& call) {
  require_indices(call, 1);
  const TensorSpec &base = call.inputs[0], &updates = call.inputs[2];
  const TensorSpec expected = infer_gather({call.op, call.inputs.first(2), call.attributes})[0];
  require(updates == expected,
          updates.dtype == base.dtype ? ErrorCode::kShapeMismatch : ErrorCode::kDtypeMismatch, call.op.name,
          "base {} at indices {} along axis {} takes updates {}, got {}", base.str(), call.inputs[1].str(),
          call.attributes.get<int64_t>("axis"), expected.str(), updates.str());
  return {base};
}

/// The shape of the indices, followed by axes of extent 1 for the axes after the indexed one.
Shape along_slices(const GradientCall& call) {
  Shape along = call.inputs[1].shape();
  for (int64_t i = call.attributes.get<int64_t>("axis") + 1; i < call.inputs[0].rank(); ++i)
    along.push_back(1);
  return along;
}

/// If indices are equal, only the last one's update was kept, so only it gets a gradient.
std::vector<Tensor> scatter_gradient(const GradientCall& call) {
  const int64_t axis = call.attributes.get<int64_t>("axis");
  const Tensor &indices = call.inputs[1], &dy = call.output_gradients[0];
  const TensorSpec& updates = call.inputs[2].spec();
  const Tensor nothing = broadcast_to(scalar(0, updates.dtype), updates.shape);
  const Tensor number = reshape(arange(indices.elems()), indices.shape());
  const Tensor last =
      scatter(broadcast_to(scalar(0, DType::kI64), Shape{call.inputs[0].extent(axis)}), indices, number);
  const Tensor kept = reshape(equal(gather(last, indices), number), along_slices(call));
  return {scatter(dy, indices, nothing, axis), Tensor(), where(kept, gather(dy, indices, axis), 0)};
}

std::vector<TensorSpec> infer_scatter_extreme(const OpCall& call) {
  require(call.inputs[0].dtype != DType::kBool, ErrorCode::kDtypeMismatch, call.op.name,
          "is not defined on bool");
  const TensorSpec base = infer_scatter(call)[0];
  return {base, {DType::kI64, base.shape}};
}

/// The gradient goes to the elements given by the saved positions.
std::vector<Tensor> scatter_extreme_gradient(const GradientCall& call) {
  const int64_t axis = call.attributes.get<int64_t>("axis");
  const Tensor &indices = call.inputs[1], &positions = call.outputs[1], &dy = call.output_gradients[0];
  const Tensor chosen =
      equal(gather(positions, indices, axis), reshape(arange(indices.elems()), along_slices(call)));
  return {where(less(positions, 0), dy, 0), Tensor(), where(chosen, gather(dy, indices, axis), 0)};
}

std::vector<Tensor> scatter_add_gradient(const GradientCall& call) {
  return {gather(call.output_gradients[0], call.inputs[1], call.attributes.get<int64_t>("axis")), Tensor()};
}

/// Calls `visit(gathered element, element of x)` for all elements. x has the shape `whole`, the gathered
/// tensor the shape `part`.
template <typename Visit>
void visit_gathered(const OpCall& call, const Shape& whole, const Shape& part,
                    const std::vector<double>& indices, Visit visit) {
  const int axis = static_cast<int>(call.attributes.get<int64_t>("axis"));
  const Shape& index_shape = call.inputs[1].shape;
  for (int64_t i = 0; i < part.elems(); ++i) {
    const Dims at = unravel(i, part);
    Dims index;
    Dims source;
    for (int k = 0; k < part.rank(); ++k) {
      if (k == axis) source.push_back(0);
      if (k >= axis && k < axis + index_shape.rank()) {
        index.push_back(at[k]);
      } else {
        source.push_back(at[k]);
      }
    }
    if (axis == part.rank()) source.push_back(0);
    source[axis] = static_cast<int64_t>(indices[static_cast<size_t>(ravel(index, index_shape))]);
    visit(static_cast<size_t>(i), static_cast<size_t>(ravel(source, whole)));
  }
}

std::vector<std::vector<double>> gather_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                  const std::vector<std::vector<double>>& inputs) {
  std::vector<double> result(static_cast<size_t>(outputs[0].shape.elems()));
  visit_gathered(call, call.inputs[0].shape, outputs[0].shape, inputs[1],
                 [&](size_t to, size_t from) { result[to] = inputs[0][from]; });
  return {result};
}

std::vector<std::vector<double>> scatter_add_reference(const OpCall& call,
                                                       std::span<const TensorSpec> outputs,
                                                       const std::vector<std::vector<double>>& inputs) {
  std::vector<double> result(static_cast<size_t>(outputs[0].shape.elems()));
  visit_gathered(call, outputs[0].shape, call.inputs[0].shape, inputs[1],
                 [&](size_t from, size_t to) { result[to] += inputs[0][from]; });
  return {result};
}

void add_gather(graph::Registry& registry) {
  OpDef op;
  op.name = "gather";
  op.summary = "slices at indices along an axis";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_gather;
  op.gradient = gather_gradient;
  op.precision.rule = graph::PrecisionRule::kMoves;
  op.bytes = [](const OpCall& call, std::span<const TensorSpec> outputs) {
    const size_t result = outputs[0].size_bytes();
    return static_cast<double>(std::min(call.inputs[0].size_bytes(), result) + call.inputs[1].size_bytes() +
                               result);
  };
  op.reference = gather_reference;
  op.dtypes = any_dtype();
  const auto axis = [](int64_t i) { return Attributes{{"axis", i}}; };
  op.samples = {{{{{5, 3}}, {{4}, 0, 4, DType::kI64}}, axis(0)},
                {{{{5, 3}}, {{2, 2}, 0, 4, DType::kI32}}, axis(0)},
                {{{{2, 5, 3}}, {{6}, 0, 4, DType::kI64}}, axis(1)},
                {{{{4, 3}}, {{2, 3}, 0, 2, DType::kI32}}, axis(1)},
                {{{{7}}, {{}, 0, 6, DType::kI64}}, axis(0)},
                {{{{5, 3}}, {{0}, 0, 4, DType::kI64}}, axis(0)},
                {{{{60, 64}}, {{1100}, 0, 59, DType::kI32}}, axis(0)}};
  op.errors = {{{{DType::kF32, {5, 3}}, {DType::kI64, {2}}}, axis(2), ErrorCode::kOutOfRange},
               {{{DType::kF32, {5, 3}}, {DType::kF32, {2}}}, axis(0), ErrorCode::kDtypeMismatch},
               {{{DType::kF32, {1, 1, 1, 1, 1}}, {DType::kI64, {1, 1, 1, 1, 1}}},
                axis(0),
                ErrorCode::kInvalidArgument}};
  registry.add(std::move(op));
}

void add_scatter_add(graph::Registry& registry) {
  OpDef op;
  op.name = "scatter_add";
  op.summary = "zeros, to which slices are added at indices along an axis";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_scatter_add;
  op.gradient = scatter_add_gradient;
  op.reference = scatter_add_reference;
  op.dtypes = kNumbers;
  op.tolerance = 30;  // sums of up to 40 numbers
  const auto at = [](int64_t axis, int64_t extent) { return Attributes{{"axis", axis}, {"extent", extent}}; };
  op.samples = {{{{{4, 3}}, {{4}, 0, 4, DType::kI64}}, at(0, 5)},
                {{{{2, 2, 3}}, {{2, 2}, 0, 4, DType::kI32}}, at(0, 5)},
                {{{{2, 6, 3}}, {{6}, 0, 4, DType::kI64}}, at(1, 5)},
                {{{{}}, {{}, 0, 6, DType::kI64}}, at(0, 7)},
                {{{{3}}, {{}, 0, 1, DType::kI64}}, at(1, 2)},
                {{{{0, 3}}, {{0}, 0, 4, DType::kI64}}, at(0, 5)},
                {{{{1100, 64}}, {{1100}, 0, 59, DType::kI32}}, at(0, 60)}};
  op.errors = {{{{DType::kF32, {4, 3}}, {DType::kI64, {2}}}, at(0, 5), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {4, 3}}, {DType::kI64, {4}}}, at(0, -1), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {4, 3}}, {DType::kI64, {3}}}, at(2, 5), ErrorCode::kOutOfRange},
               {{{DType::kF32, {4, 3}}, {DType::kU8, {4}}}, at(0, 5), ErrorCode::kDtypeMismatch},
               {{{DType::kBool, {4, 3}}, {DType::kI64, {4}}}, at(0, 5), ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

std::vector<TensorSpec> infer_one_hot(const OpCall& call) {
  require_indices(call, 0);
  const int64_t depth = call.attributes.get<int64_t>("depth");
  require(depth > 0, ErrorCode::kInvalidArgument, call.op.name, "depth must be >= 1, got {}", depth);
  Shape shape = call.inputs[0].shape;
  shape.push_back(depth);
  return {{call.attributes.get<DType>("dtype"), shape}};
}

std::vector<std::vector<double>> one_hot_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                   const std::vector<std::vector<double>>& inputs) {
  const size_t depth = static_cast<size_t>(call.attributes.get<int64_t>("depth"));
  std::vector<double> result(static_cast<size_t>(outputs[0].shape.elems()));
  for (size_t i = 0; i < inputs[0].size(); ++i) result[i * depth + static_cast<size_t>(inputs[0][i])] = 1;
  return {result};
}

std::vector<std::vector<double>> scatter_reference(const OpCall& call, std::span<const TensorSpec>,
                                                   const std::vector<std::vector<double>>& inputs) {
  std::vector<double> result = inputs[0];
  visit_gathered(call, call.inputs[0].shape, call.inputs[2].shape, inputs[1],
                 [&](size_t from, size_t to) { result[to] = inputs[2][from]; });
  return {result};
}

/// The common parts of the registry rows of scatter, scatter_max and scatter_min.
OpDef scatter_row(std::string_view name, std::string summary) {
  OpDef op;
  op.name = name;
  op.summary = std::move(summary);
  op.min_inputs = op.max_inputs = 3;
  op.may_alias = [](const OpCall&, int output, int input) { return output == 0 && input == 0; };
  op.precision.rule = graph::PrecisionRule::kMoves;
  const auto axis = [](int64_t i) { return Attributes{{"axis", i}}; };
  op.samples = {{{{{5, 3}}, {{4}, 0, 4, DType::kI64, {2, 0, 2, 4}}, {{4, 3}}}, axis(0)},
                {{{{5, 3}}, {{2, 2}, 0, 4, DType::kI32}, {{2, 2, 3}}}, axis(0)},
                {{{{2, 5, 3}}, {{6}, 0, 4, DType::kI64}, {{2, 6, 3}}}, axis(1)},
                {{{{4, 3}}, {{2, 3}, 0, 2, DType::kI32}, {{4, 2, 3}}}, axis(1)},
                {{{{7}}, {{}, 0, 6, DType::kI64}, {{}}}, axis(0)},
                {{{{5, 3}}, {{0}, 0, 4, DType::kI64}, {{0, 3}}}, axis(0)},
                {{{{60, 64}}, {{1100}, 0, 59, DType::kI32}, {{1100, 64}}}, axis(0)}};
  const TensorSpec base{DType::kF32, {5, 3}};
  op.errors = {{{base, {DType::kI64, {2}}, {DType::kF32, {3, 2}}}, axis(1), ErrorCode::kShapeMismatch},
               {{base, {DType::kI64, {2}}, {DType::kF64, {2, 3}}}, axis(0), ErrorCode::kDtypeMismatch},
               {{base, {DType::kF32, {2}}, {DType::kF32, {2, 3}}}, axis(0), ErrorCode::kDtypeMismatch},
               {{base, {DType::kI64, {2}}, {DType::kF32, {2, 3}}}, axis(2), ErrorCode::kOutOfRange}};
  return op;
}

void add_scatter(graph::Registry& registry) {
  OpDef op = scatter_row("scatter", "a tensor with slices at indices along an axis replaced");
  op.infer = infer_scatter;
  op.gradient = scatter_gradient;
  op.reference = scatter_reference;
  op.dtypes = any_dtype();
  registry.add(std::move(op));
}

/// Adds scatter_max if `largest`, otherwise scatter_min.
void add_scatter_extreme(graph::Registry& registry, bool largest) {
  OpDef op = scatter_row(
      largest ? "scatter_max" : "scatter_min",
      fmt::format("the {} of each element of a tensor and of slices at indices along an axis, and the "
                  "position of its index, or -1",
                  largest ? "largest" : "smallest"));
  op.infer = infer_scatter_extreme;
  op.gradient = scatter_extreme_gradient;
  op.skippable_outputs = 0b10;
  op.reference = [largest](const OpCall& call, std::span<const TensorSpec>,
                           const std::vector<std::vector<double>>& inputs) {
    std::vector<double> result = inputs[0], positions(result.size(), -1);
    const int64_t axis = call.attributes.get<int64_t>("axis"), count = call.inputs[1].shape.elems();
    int64_t inner = 1;
    for (int64_t i = axis + 1; i < call.inputs[0].shape.rank(); ++i)
      inner *= call.inputs[0].shape[static_cast<int>(i)];
    visit_gathered(call, call.inputs[0].shape, call.inputs[2].shape, inputs[1], [&](size_t from, size_t to) {
      const double update = inputs[2][from];
      if (largest ? update <= result[to] : update >= result[to]) return;
      result[to] = update;
      positions[to] = static_cast<double>(static_cast<int64_t>(from) / inner % count);
    });
    return std::vector{result, positions};
  };
  op.dtypes = kNumbers;
  op.errors.push_back({{{DType::kBool, {5, 3}}, {DType::kI64, {2}}, {DType::kBool, {2, 3}}},
                       Attributes{{"axis", int64_t{0}}},
                       ErrorCode::kDtypeMismatch});
  registry.add(std::move(op));
}

void add_one_hot(graph::Registry& registry) {
  OpDef op;
  op.name = "one_hot";
  op.summary = "1 at each index, else 0, along a new last axis";
  op.infer = infer_one_hot;
  op.reference = one_hot_reference;
  op.dtypes = {DType::kI64, DType::kI32};
  const auto to = [](int64_t depth, DType dtype) { return Attributes{{"depth", depth}, {"dtype", dtype}}; };
  op.samples = {{{{{6}, 0, 4}}, to(5, DType::kF32)},
                {{{{2, 3}, 0, 2}}, to(3, DType::kBF16)},
                {{{{}, 0, 0}}, to(1, DType::kI64)},
                {{{{0}, 0, 2}}, to(3, DType::kBool)}};
  op.errors = {{{{DType::kI64, {2}}}, to(0, DType::kF32), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {2}}}, to(3, DType::kF32), ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

std::vector<TensorSpec> infer_arg(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  const int axis = checked_axis(call, shape);
  require(shape[axis] > 0, ErrorCode::kShapeMismatch, call.op.name,
          "axis {} of {} is empty; expected at least one element", axis, call.inputs[0].str());
  return {{DType::kI64, reduced_shape(shape, {axis}, call.attributes.get<bool>("keep_dims"))}};
}

template <bool kLargest>
std::vector<std::vector<double>> arg_reference(const OpCall& call, std::span<const TensorSpec>,
                                               const std::vector<std::vector<double>>& inputs) {
  const Shape& shape = call.inputs[0].shape;
  const int axis = static_cast<int>(call.attributes.get<int64_t>("axis"));
  const Shape kept = reduced_shape(shape, {axis}, true);
  std::vector<double> result(static_cast<size_t>(kept.elems()));
  for (size_t i = 0; i < result.size(); ++i) {
    Dims index = unravel(static_cast<int64_t>(i), kept);
    double best = 0;
    for (int64_t k = 0; k < shape[axis]; ++k) {
      index[axis] = k;
      const double value = inputs[0][static_cast<size_t>(ravel(index, shape))];
      if (k > 0 && !(kLargest ? value > best : value < best)) continue;
      best = value;
      result[i] = static_cast<double>(k);
    }
  }
  return {result};
}

template <bool kLargest>
void add_arg(graph::Registry& registry) {
  OpDef op;
  op.name = kLargest ? "argmax" : "argmin";
  op.summary = kLargest ? "position of the first largest element" : "position of the first smallest element";
  op.infer = infer_arg;
  op.reference = arg_reference<kLargest>;
  op.dtypes = any_dtype();
  const auto along = [](int64_t axis, bool keep) { return Attributes{{"axis", axis}, {"keep_dims", keep}}; };
  op.samples = {{{{{5}}}, along(0, false)},
                {{{{3, 5}}}, along(1, true)},
                {{{{4, 3, 5}}}, along(1, false)},
                {{{{0, 3}}}, along(1, false)},
                {{{{6}, 0, 0, {}, {1, 3, 0, 3, 0, 1}}}, along(0, false)},
                {{{{800, 100}}}, along(1, false)}};
  op.errors = {{{{DType::kF32, {2, 3}}}, along(2, false), ErrorCode::kOutOfRange},
               {{{DType::kF32, {2, 0}}}, along(1, false), ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

Tensor apply_arg(const OpDef& op, const Tensor& x, int64_t axis, bool keep_dims) {
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  const int64_t at = normalize_axis(axis, x.rank(), op.name);
  return graph::apply_one(op, {x}, {{"axis", at}, {"keep_dims", keep_dims}});
}

}  // namespace

void register_indexing(graph::Registry& registry) {
  add_gather(registry);
  add_scatter_add(registry);
  add_scatter(registry);
  add_scatter_extreme(registry, true);
  add_scatter_extreme(registry, false);
  add_one_hot(registry);
  add_arg<true>(registry);
  add_arg<false>(registry);
}

}  // namespace ops

Tensor gather(const Tensor& x, const Tensor& indices, int64_t axis) {
  static const graph::OpDef& op = ops::row("gather");
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  const int64_t at = normalize_axis(axis, x.rank(), op.name);
  return graph::apply_one(op, {x, indices}, {{"axis", at}});
}

Tensor scatter_add(const Tensor& updates, const Tensor& indices, int64_t extent, int64_t axis) {
  static const graph::OpDef& op = ops::row("scatter_add");
  require(updates.defined() && indices.defined(), ErrorCode::kInvalidArgument, op.name,
          "an input is undefined");
  const int64_t at = normalize_axis(axis, updates.rank() - indices.rank() + 1, op.name);
  return graph::apply_one(op, {updates, indices}, {{"axis", at}, {"extent", extent}});
}

Tensor scatter_add(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis) {
  require(base.defined(), ErrorCode::kInvalidArgument, "scatter_add", "the base is undefined");
  const int at = normalize_axis(axis, base.rank(), "scatter_add");
  const Tensor sums = scatter_add(updates, indices, base.shape()[at], at);
  require(sums.spec() == base.spec(),
          sums.dtype() == base.dtype() ? ErrorCode::kShapeMismatch : ErrorCode::kDtypeMismatch, "scatter_add",
          "updates {} at indices {} along axis {} make {}, the base is {}", updates.spec().str(),
          indices.spec().str(), at, sums.spec().str(), base.spec().str());
  return base + sums;
}

namespace {

Tensor apply_scatter(const graph::OpDef& op, const Tensor& base, const Tensor& indices, const Tensor& updates,
                     int64_t axis) {
  require(base.defined(), ErrorCode::kInvalidArgument, op.name, "the base is undefined");
  const int64_t at = normalize_axis(axis, base.rank(), op.name);
  return graph::apply(op, {{base, indices, updates}}, {{"axis", at}})[0];
}

}  // namespace

Tensor scatter(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis) {
  static const graph::OpDef& op = ops::row("scatter");
  return apply_scatter(op, base, indices, updates, axis);
}
Tensor scatter_max(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis) {
  static const graph::OpDef& op = ops::row("scatter_max");
  return apply_scatter(op, base, indices, updates, axis);
}
Tensor scatter_min(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis) {
  static const graph::OpDef& op = ops::row("scatter_min");
  return apply_scatter(op, base, indices, updates, axis);
}

Tensor one_hot(const Tensor& indices, int64_t depth, DType dtype) {
  static const graph::OpDef& op = ops::row("one_hot");
  return graph::apply_one(op, {indices}, {{"depth", depth}, {"dtype", dtype}});
}

Tensor argmax(const Tensor& x, int64_t axis, bool keep_dims) {
  const ErrorScope scope("argmax");
  static const graph::OpDef& op = ops::row("argmax");
  return ops::apply_arg(op, x, axis, keep_dims);
}
Tensor argmax(const Tensor& x) {
  const ErrorScope scope("argmax");
  return argmax(reshape(x, {-1}), 0);
}
Tensor argmin(const Tensor& x, int64_t axis, bool keep_dims) {
  const ErrorScope scope("argmin");
  static const graph::OpDef& op = ops::row("argmin");
  return ops::apply_arg(op, x, axis, keep_dims);
}
Tensor argmin(const Tensor& x) {
  const ErrorScope scope("argmin");
  return argmin(reshape(x, {-1}), 0);
}

}  // namespace isochron
