#include "isochron/optim/row_gradients.h"

#include <algorithm>
#include <string_view>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::optim {
namespace {

using ops::RowGradient;

/// The values multiplied by all factors. The factors, which are single numbers, are multiplied first, so that
/// the values, a block, need only one multiplication.
Tensor scaled_values(const RowGradient& rows) {
  Tensor factor;
  for (const ops::RowFactor& next : rows.factors) {
    const Tensor number = reshape(next.number, {});
    if (!factor.defined())
      factor = next.divides ? 1.0 / number : number;
    else
      factor = next.divides ? factor / number : factor * number;
  }
  if (!factor.defined()) return rows.negated ? -rows.values : rows.values;
  return rows.values * (rows.negated ? -factor : factor);
}

/// Concatenates all of `rows`: the rows of one read follow those of another.
RowGradient joined(std::vector<RowGradient> rows, const Variable& parameter) {
  for (RowGradient& one : rows) one.values = scaled_values(one);
  if (rows.size() == 1) return rows[0];
  const int64_t row_elems = parameter.elems() / std::max<int64_t>(parameter.shape()[0], 1);
  RowGradient all = rows[0];
  std::vector<Tensor> indices, values;
  for (const RowGradient& one : rows) {
    require(one.padding == all.padding, ErrorCode::kInvalidArgument, "optimizer",
            "parameter '{}' is looked up with padding_idx {} and {}; let them agree, or leave `sparse` out",
            parameter.name(), all.padding, one.padding);
    const int64_t count = one.indices.elems();
    indices.push_back(reshape(cast(one.indices, DType::kI64), {count}));
    values.push_back(reshape(one.values, {count, row_elems}));
  }
  all.indices = concatenate(indices);
  all.values = concatenate(values);
  Dims shape{all.indices.elems()};
  for (int axis = 1; axis < parameter.shape().rank(); ++axis) shape.push_back(parameter.shape()[axis]);
  all.values = reshape(all.values, shape);
  return all;
}

}  // namespace

/// The rows of `gradient` if the parameter is updated by rows; optimizer.h says when that is the case. Throws
/// kUnsupported if updating by rows was requested but isn't possible.
std::vector<RowGradient> Optimizer::row_gradients_of(const Variable& parameter,
                                                     const Tensor& gradient) const {
  if (parameter.shape().rank() == 0) return {};
  std::vector<RowGradient> rows = ops::row_gradients(gradient);
  const bool same = ops::zero_gradient_changes_nothing(*op_, attributes_);
  if (rows.empty()) {
    const graph::OpDef* changed = same ? nullptr : ops::changed_row_gradient(gradient);
    require(
        changed == nullptr, ErrorCode::kUnsupported, "optimizer",
        "parameter '{}' is to be updated only in the rows that have a gradient (`sparse`), but '{}' changed "
        "its gradient, which may only be multiplied or divided by numbers; leave out that op or `sparse`",
        parameter.name(), changed ? changed->name : "");
    return {};
  }
  std::string_view obstacle;
  if (!ops::updates_by_elements(*op_)) obstacle = "this optimizer looks at whole parameters";
  if (accumulates()) obstacle = "micro-batches are accumulated";
  if (distributed()) obstacle = "gradients are summed over ranks";
  if (options_.noise.eta > 0) obstacle = "gradient noise changes all rows";
  if (decay_of(parameter) > 0) obstacle = "weight decay changes all rows";
  if (std::all_of(rows.begin(), rows.end(), [](const RowGradient& one) { return one.sparse; })) {
    require(obstacle.empty() || same, ErrorCode::kUnsupported, "optimizer",
            "parameter '{}' is to be updated only in the rows that have a gradient (`sparse`), but {}; leave "
            "`sparse` out of its layer, or that out of the optimizer",
            parameter.name(), obstacle);
    return obstacle.empty() ? rows : std::vector<RowGradient>{};
  }
  const Clipping& clip = options_.clip;
  const bool same_bits = same && obstacle.empty() && rows.size() == 1 && rows[0].factors.empty() &&
                         !rows[0].negated && clip.norm == 0 && clip.global_norm == 0;
  if (!same_bits || 2 * rows[0].indices.elems() > parameter.shape()[0]) return {};
  return rows;
}

Optimizer::Gradients Optimizer::by_rows(std::span<const Variable> parameters,
                                        std::span<const Tensor> gradients) const {
  Gradients result;
  std::vector<Variable> tables;
  std::vector<Tensor> sums;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<RowGradient> rows =
        gradients[i].defined() ? row_gradients_of(parameters[i], gradients[i]) : std::vector<RowGradient>{};
    if (rows.empty()) {
      result.parameters.push_back(parameters[i]);
      result.gradients.push_back(gradients[i]);
      continue;
    }
    const RowGradient all = joined(rows, parameters[i]);
    const CoalescedRows coalesced =
        coalesce_rows(all.values, all.indices, parameters[i].shape()[0], all.padding);
    tables.push_back(parameters[i]);
    sums.push_back(coalesced.values);
    result.rows.push_back(coalesced.rows);
    result.counts.push_back(coalesced.count);
  }
  result.parameters.insert(result.parameters.end(), tables.begin(), tables.end());
  result.gradients.insert(result.gradients.end(), sums.begin(), sums.end());
  return result;
}

}  // namespace isochron::optim
