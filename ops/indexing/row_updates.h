// Row-sparse gradients, and how optimizers use them. If a step reads only a few rows of a table, the table's
// gradient is as large as the table, but zero in all other rows. To autograd this gradient is an ordinary
// tensor, the result of a `scatter_add`, so code that needs all of it (a product with the whole table, noise,
// sums over micro-batches) reads it as usual. An optimizer that needs only some rows asks for the (indices,
// values) that the gradient is made of (`row_gradients`), sums them by row (`coalesce_rows`) and updates only
// these rows (`update_rows`). Then nothing reads the dense gradient, and it is never computed. Shapes stay
// static: there are at most as many rows as indices, and a count tells how many are used.
//
// The optimizers in optim/ choose between sparse and dense updates.
#pragma once

#include <vector>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/op.h"

namespace isochron {

/// The distinct rows of a row-sparse gradient.
struct CoalescedRows {
  Tensor values;  // (N, ...): the sums of the first `count` rows, then zeros
  Tensor rows;    // i64 (N): the numbers of these rows, ascending, then -1
  Tensor count;   // i64 ()
};
/// Sums the `updates` with the same index, for a tensor with `extent` rows. updates: f32 or f64, with the
/// shape of `indices` followed by the shape of a row; indices: i32 or i64, N of them, below 2^32. Indices
/// equal to `padding` are skipped. Each sum is computed in the order of the indices, so it has the same bits
/// on any number of threads, and the same bits as the result of `scatter_add`. Costs O(N), regardless of the
/// extent. Not differentiable. Throws kShapeMismatch, kDtypeMismatch, kInvalidArgument (extent below 0 or
/// above 2^32, padding outside of it), and when run kOutOfRange for an index outside [0, extent).
CoalescedRows coalesce_rows(const Tensor& updates, const Tensor& indices, int64_t extent,
                            int64_t padding = -1);

namespace ops {

/// A number that values are multiplied or divided by, for example to clip the gradient.
struct RowFactor {
  Tensor number;  // one element
  bool divides = false;
};
/// A tensor that is zero except for some rows (slices along the first axis). Row r is the sum of the
/// `values[i]` with `indices[i]` == r.
struct RowGradient {
  Tensor indices;        // i32 or i64, any shape
  Tensor values;         // the shape of `indices`, followed by the shape of a row
  int64_t padding = -1;  // index whose values are zero (the padding row); -1: none
  bool sparse = false;   // whether the op was called with `sparse`: only these rows need an update
  std::vector<RowFactor> factors = {};  // factors of all values
  bool negated = false;                 // whether all values are negated, after the factors
};
/// `gradient` as a dense tensor of `extent` rows: a `scatter_add` with the attributes `padding` and `sparse`,
/// from which `row_gradients` can recover it.
Tensor dense_gradient(const RowGradient& gradient, int64_t extent);
/// The terms of `gradient`, in the order in which they were added, if it is a sum of `scatter_add`s along the
/// first axis that were at most negated, multiplied or divided by numbers. The gradient of a table read by
/// `gather` or `embedding_bag` has this form, also after clipping by norm or division by a loss scale.
/// Otherwise empty. If a capture reads these terms instead of `gradient`, nothing needs the dense result, so
/// it is never computed. Outside a capture the terms are known only within a RowGradientScope.
std::vector<RowGradient> row_gradients(const Tensor& gradient);
/// The op that changed a `sparse` gradient so that `row_gradients` returns nothing, for example an
/// elementwise clip or a mask. Null if there is no such op, or if a gradient that isn't sparse was added
/// (tied weights).
const graph::OpDef* changed_row_gradient(const Tensor& gradient);

/// During its lifetime, `row_gradients` also works for tensors that this thread computes outside a capture.
class RowGradientScope final : public graph::ApplyObserver {
 public:
  RowGradientScope();
  ~RowGradientScope();
  RowGradientScope(const RowGradientScope&) = delete;
  RowGradientScope& operator=(const RowGradientScope&) = delete;

  void on_apply(const graph::OpDef& op, const graph::Attributes& attributes, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs) override;

 private:
  friend std::vector<RowGradient> row_gradients(const Tensor& gradient);
  friend const graph::OpDef* changed_row_gradient(const Tensor& gradient);
  struct Recorded;
  struct Call {
    Tensor output;  // kept so that its address isn't reused
    const graph::OpDef* op;
    graph::Attributes attributes;
    std::vector<Tensor> inputs;
    bool sparse;  // computed from a sparse gradient
  };
  std::vector<Call> calls_;
  RowGradientScope* outer_;
};

/// `updates` with zeros where `indices` equal `padding`. The shape of `updates` begins with the shape of
/// `indices`.
Tensor without_padding(const Tensor& updates, const Tensor& indices, int64_t padding);

/// The order of the tensors of a call of `update_rows`. This op applies the elementwise optimizer update
/// named by its attribute `rule` (ops/optimizer/optimizer_updates.h) to the listed rows of n tables and their
/// states. All other rows and their states stay unchanged.
///
///   inputs   gradient factor f64 (), learning rate f64 (), steps done i64 (), p1..pn, k lists of n states,
///            n gradients' values, n rows, n counts, as `coalesce_rows` gives them
///   outputs  new p1..pn, new states; output o may be written over input o + 3
struct RowUpdateLayout {
  size_t parameters = 0;  // n
  size_t states = 0;      // k
  static constexpr size_t kGradientFactor = 0;
  static constexpr size_t kLearningRate = 1;
  static constexpr size_t kStep = 2;
  static constexpr size_t kNumbers = 3;
  static constexpr size_t kFirstAliased = 3;
  size_t parameter(size_t i) const { return kNumbers + i; }
  size_t state(size_t k, size_t i) const { return kNumbers + (1 + k) * parameters + i; }
  size_t values(size_t i) const { return kNumbers + (1 + states) * parameters + i; }
  size_t rows(size_t i) const { return values(parameters) + i; }
  size_t count(size_t i) const { return rows(parameters) + i; }
  size_t outputs() const { return (1 + states) * parameters; }
};
RowUpdateLayout row_update_layout(const graph::OpDef& rule, const graph::Attributes& attributes,
                                  size_t inputs);

/// Whether the update `rule` is elementwise, which `update_rows` requires.
bool updates_by_elements(const graph::OpDef& rule);
/// Whether an update with a gradient of zero leaves parameter and states unchanged, bit for bit.
bool zero_gradient_changes_nothing(const graph::OpDef& rule, const graph::Attributes& attributes);

}  // namespace ops
}  // namespace isochron
