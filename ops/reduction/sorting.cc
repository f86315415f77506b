#include "isochron/ops/reduction/sorting.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

// Sorting is top_k with all elements, so one op serves both.

std::vector<TensorSpec> infer_top_k(const OpCall& call) {
  Shape shape = call.inputs[0].shape;
  const int axis = checked_axis(call, shape);
  const int64_t k = call.attributes.get<int64_t>("k");
  require(k >= 0 && k <= shape[axis], ErrorCode::kOutOfRange, call.op.name,
          "k is {}, axis {} of {} has {} elements", k, axis, call.inputs[0].str(), shape[axis]);
  shape[axis] = k;
  return {{call.inputs[0].dtype, shape}, {DType::kI64, shape}};
}

std::vector<Tensor> top_k_gradient(const GradientCall& call) {
  const int64_t axis = call.attributes.get<int64_t>("axis");
  return {put_add_along_axis(call.output_gradients[0], call.outputs[1], call.inputs[0].extent(axis), axis)};
}

double top_k_flops(const OpCall& call) {
  const double elems = static_cast<double>(call.inputs[0].shape.elems());
  return elems * std::log2(elems + 1);
}

std::vector<std::vector<double>> top_k_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                 const std::vector<std::vector<double>>& inputs) {
  const Shape& shape = call.inputs[0].shape;
  const int axis = static_cast<int>(call.attributes.get<int64_t>("axis"));
  const bool largest = call.attributes.get<bool>("largest");
  std::vector<double> values;
  std::vector<double> positions;
  for (int64_t i = 0; i < outputs[0].shape.elems(); ++i) {
    Dims at = unravel(i, outputs[0].shape);
    const size_t rank = static_cast<size_t>(at[axis]);
    std::vector<double> line;
    for (at[axis] = 0; at[axis] < shape[axis]; ++at[axis])
      line.push_back(inputs[0][static_cast<size_t>(ravel(at, shape))]);
    std::vector<size_t> order(line.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return largest ? line[a] > line[b] : line[a] < line[b]; });
    values.push_back(line[order[rank]]);
    positions.push_back(static_cast<double>(order[rank]));
  }
  return {values, positions};
}

std::pair<Tensor, Tensor> apply_top_k(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  static const OpDef& op = row("top_k");
  const std::vector<Tensor> results =
      graph::apply(op, {&x, 1}, {{"axis", axis}, {"k", k}, {"largest", largest}});
  return {results[0], results[1]};
}

std::vector<TensorSpec> infer_searchsorted(const OpCall& call) {
  require_same_dtype(call);
  require_min_rank(call, 0, 1);
  const TensorSpec &sorted = call.inputs[0], &values = call.inputs[1];
  require(sorted.dtype != DType::kBool, ErrorCode::kDtypeMismatch, call.op.name, "is not defined on bool");
  bool lines = sorted.shape.rank() == values.shape.rank();
  for (int i = 0; lines && i + 1 < sorted.shape.rank(); ++i) lines = sorted.shape[i] == values.shape[i];
  require(lines, ErrorCode::kShapeMismatch, call.op.name,
          "expected sorted lines and as many lines of values, (..., S) and (..., V), got {} and {}",
          sorted.str(), values.str());
  return {{DType::kI64, values.shape}};
}

std::vector<std::vector<double>> searchsorted_reference(const OpCall& call, std::span<const TensorSpec>,
                                                        const std::vector<std::vector<double>>& inputs) {
  const int64_t extent = call.inputs[0].shape.back(), each = call.inputs[1].shape.back();
  const bool right = call.attributes.get<bool>("right");
  std::vector<double> result;
  for (size_t i = 0; i < inputs[1].size(); ++i) {
    const auto first = inputs[0].begin() + static_cast<int64_t>(i) / each * extent;
    result.push_back(static_cast<double>(std::count_if(
        first, first + extent, [&](double x) { return right ? x <= inputs[1][i] : x < inputs[1][i]; })));
  }
  return {result};
}

void add_searchsorted(graph::Registry& registry) {
  OpDef op;
  op.name = "searchsorted";
  op.summary = "where values would be inserted into sorted lines";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_searchsorted;
  op.gradient = no_gradient;
  op.reference = searchsorted_reference;
  op.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kU8};
  const InputSample five{{5}, 0, 4, {}, {0, 1, 1, 2, 4}}, lines{{2, 3}, 0, 4, {}, {0, 1, 2, 1, 1, 3}};
  for (const bool right : {false, true}) {
    const Attributes side{{"right", right}};
    op.samples.insert(op.samples.end(), {{{five, {{7}, 0, 4, {}, {0, 1, 2, 3, 4, 0, 1}}}, side},
                                         {{lines, {{2, 4}, 0, 4, {}, {0, 1, 2, 3, 3, 2, 1, 0}}}, side},
                                         {{five, {{0}, 0, 4}}, side},
                                         {{{{0}, 0, 4}, {{3}, 0, 4}}, side},
                                         {{five, {{70000}, 0, 4}}, side}});
  }
  const Attributes left{{"right", false}};
  op.errors = {{{{DType::kF32, {5}}, {DType::kF64, {2}}}, left, ErrorCode::kDtypeMismatch},
               {{{DType::kBool, {5}}, {DType::kBool, {2}}}, left, ErrorCode::kDtypeMismatch},
               {{{DType::kF32, {}}, {DType::kF32, {}}}, left, ErrorCode::kShapeMismatch},
               {{{DType::kF32, {2, 5}}, {DType::kF32, {3, 2}}}, left, ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

}  // namespace

void register_sorting(graph::Registry& registry) {
  add_searchsorted(registry);
  OpDef op;
  op.name = "top_k";
  op.summary = "the k largest or smallest elements along an axis in order, and their positions";
  op.infer = infer_top_k;
  op.gradient = top_k_gradient;
  op.skippable_outputs = OpDef::kAllOutputs;
  op.flops = top_k_flops;
  op.reference = top_k_reference;
  op.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
               DType::kI64, DType::kI32, DType::kU8,  DType::kBool};
  const auto first = [](int64_t axis, int64_t k, bool largest) {
    return Attributes{{"axis", axis}, {"k", k}, {"largest", largest}};
  };
  for (const bool largest : {true, false}) {
    op.samples.insert(op.samples.end(), {{{{{7}}}, first(0, 3, largest)},
                                         {{{{3, 5}}}, first(1, 5, largest)},
                                         {{{{4, 2, 3}}}, first(0, 2, largest)},
                                         {{{{2, 6, 3}}}, first(1, 6, largest)},
                                         {{{{2, 3}}}, first(1, 0, largest)},
                                         {{{{0, 3}}}, first(1, 2, largest)},
                                         {{{{2, 1200}}}, first(1, 1200, largest)},
                                         {{{{700, 30}}}, first(1, 4, largest)},
                                         {{{{9, 400}}}, first(1, 20, largest)}});
  }
  op.errors = {{{{DType::kF32, {2, 3}}}, first(2, 1, true), ErrorCode::kOutOfRange},
               {{{DType::kF32, {2, 3}}}, first(1, 4, true), ErrorCode::kOutOfRange},
               {{{DType::kF32, {2, 3}}}, first(1, -1, true), ErrorCode::kOutOfRange}};
  registry.add(std::move(op));
}

}  // namespace ops

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  static const graph::OpDef& op = ops::row("searchsorted");
  ops::require_defined(sorted, op.name);
  ops::require_defined(values, op.name);
  const Tensor lines = sorted.rank() == 1 ? reshape(values, {-1}) : values;
  return reshape(graph::apply_one(op, {sorted, lines}, {{"right", right}}), values.shape());
}

std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t axis, bool descending) {
  require(x.defined(), ErrorCode::kInvalidArgument, "sort", "the input is undefined");
  const int at = normalize_axis(axis, x.rank(), "sort");
  return ops::apply_top_k(x, x.shape()[at], at, descending);
}

Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  const ErrorScope scope("argsort");
  return sort(x, axis, descending).second;
}

std::pair<Tensor, Tensor> top_k(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  require(x.defined(), ErrorCode::kInvalidArgument, "top_k", "the input is undefined");
  return ops::apply_top_k(x, k, normalize_axis(axis, x.rank(), "top_k"), largest);
}

}  // namespace isochron
