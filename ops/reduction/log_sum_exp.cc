#include "isochron/ops/reduction/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/row_rules.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using Values = std::vector<std::vector<double>>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<TensorSpec> infer(const OpCall& call) {
  check_rows(call);
  return {{call.inputs[0].dtype, without_last(call.inputs[0].shape)}};
}

/// g e^(x - y). For x = -inf this and its higher gradients are 0, even if y is -inf.
std::vector<Tensor> gradient(const GradientCall& call) {
  const Tensor& y = call.outputs[0];
  const Tensor finite = where(equal(y, -kInfinity), 0, y);
  return {as_column(call.output_gradients[0]) * exp(call.inputs[0] - as_column(finite))};
}

Values log_sum_exp_reference(const OpCall& call, std::span<const TensorSpec>, const Values& inputs) {
  const std::vector<double>& x = inputs[0];
  const auto columns = static_cast<size_t>(call.inputs[0].shape.back());
  std::vector<double> result;
  for (size_t start = 0; start < x.size(); start += columns) {
    double largest = -kInfinity;
    for (size_t k = 0; k < columns; ++k) largest = std::max(largest, x[start + k]);
    double sum = 0;
    for (size_t k = 0; k < columns; ++k) sum += std::exp(x[start + k] - largest);
    result.push_back(std::isinf(largest) ? largest : largest + std::log(sum));
  }
  return {result};
}

}  // namespace

void register_log_sum_exp(graph::Registry& registry) {
  OpDef op;
  op.name = "log_sum_exp";
  op.summary = "log sum e^x over the last axis";
  op.infer = infer;
  op.gradient = gradient;
  op.flops = [](const OpCall& call) { return 10.0 * static_cast<double>(call.inputs[0].shape.elems()); };
  op.reference = log_sum_exp_reference;
  op.tolerance = 10;  // sums of up to 700 exponentials
  op.samples = {{{{{4, 10}, -5, 5}}}, {{{{3}}}},    {{{{2, 3, 5}, -90, 90}}},
                {{{{2, 700}}}},       {{{{0, 4}}}}, {{{{3, 1}}}}};
  op.errors = {{{{DType::kF32, {}}}, {}, ErrorCode::kShapeMismatch},
               {{{DType::kF32, {2, 0}}}, {}, ErrorCode::kShapeMismatch},
               {{{DType::kI64, {2}}}, {}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

}  // namespace ops

Tensor log_sum_exp(const Tensor& x, const Axes& axes, bool keep_dims) {
  static const graph::OpDef& op = ops::row("log_sum_exp");
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  if (is_half(x.dtype())) return cast(log_sum_exp(cast(x, DType::kF32), axes, keep_dims), x.dtype());
  const Axes summed = normalize_axes(axes, x.rank(), op.name);
  Dims order, result;
  int64_t columns = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool kept = std::ranges::find(summed, axis) == summed.end();
    if (kept) order.push_back(axis);
    if (kept || keep_dims) result.push_back(kept ? x.extent(axis) : 1);
  }
  Dims rows;
  for (const int64_t axis : order) rows.push_back(x.extent(static_cast<int>(axis)));
  for (const int64_t axis : summed) {
    order.push_back(axis);
    columns *= x.extent(static_cast<int>(axis));
  }
  rows.push_back(columns);
  return reshape(graph::apply_one(op, {reshape(transpose(x, order), rows)}), result);
}

}  // namespace isochron
