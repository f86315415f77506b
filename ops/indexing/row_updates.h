// Row-sparse gradients and what optimizers do with them. The gradient of a table of which a step reads a few
// rows is as large as the table, but zero beyond these rows. To autograd it is a tensor as any other, the
// result of a `scatter_add`, so that whatever needs all of it (a product with the whole table, noise, sums
// over micro-batches) just reads it. An optimizer that needs less asks for the (indices, values) behind it
// (`row_gradients`), sums them up by row (`coalesce_rows`) and updates only those rows (`update_rows`); then
// nobody reads the tensor, and it is never made. Shapes stay static: there are at most as many rows as
// indices, and a count says how many there are.
//
// optim/ chooses between them and dense updates.
#pragma once

#include <vector>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/op.h"

namespace isochron {

/// The rows of a row-sparse gradient of a tensor with `extent` rows, each once.
struct CoalescedRows {
  Tensor values;  // (N, ...): the sums of the first `count` rows; zero after these
  Tensor rows;    // i64 (N): their numbers, ascending; -1 after these
  Tensor count;   // i64 ()
};
/// Sums up the `updates` of equal index. updates: f32 or f64, the shape of `indices` followed by that of a
/// row; indices: i32 or i64, N of them, below 2^32. Those that equal `padding` are left out. Each sum is
/// taken in the order of the indices, so that it is the same on any number of threads, and the same bits as
/// `scatter_add` gives. Costs O(N), whatever the extent. Not differentiable. Throws kShapeMismatch,
/// kDtypeMismatch, kInvalidArgument (extent below 0 or above 2^32, padding outside of it), and when run
/// kOutOfRange for an index outside [0, extent).
CoalescedRows coalesce_rows(const Tensor& updates, const Tensor& indices, int64_t extent,
                            int64_t padding = -1);

namespace ops {

/// A number that values are multiplied or divided by, as to clip the gradient.
struct RowFactor {
  Tensor number;  // one element
  bool divides = false;
};
/// A tensor that is zero but for some rows (slices along the first axis): the sum of `values[i]` over the i
/// whose `indices[i]` is the row's number.
struct RowGradient {
  Tensor indices;        // i32 or i64, any shape
  Tensor values;         // the shape of `indices`, followed by that of a row
  int64_t padding = -1;  // the number of a row that is none of these, its values are zero; -1: there is none
  bool sparse = false;   // whether the op whose gradient it is was told that only its rows need an update
  std::vector<RowFactor> factors = {};  // of all values
  bool negated = false;                 // as are all values, last
};
/// `gradient` as a tensor of `extent` rows, from which `row_gradients` gets it back: a `scatter_add` that
/// carries `padding` and `sparse`.
Tensor dense_gradient(const RowGradient& gradient, int64_t extent);
/// The parts that `gradient` is the sum of, in the order in which they were added, if it is the result of
/// such `scatter_add`s along the first axis, negated, multiplied or divided by numbers, and nothing else: the
/// gradient of a table by `gather` and `embedding_bag`, clipped by its norm or divided by a loss scale. Empty
/// otherwise. If a capture reads these parts instead of `gradient`, nothing needs the dense result, so it is
/// never computed. Outside a capture the parts are known only within a RowGradientScope.
std::vector<RowGradient> row_gradients(const Tensor& gradient);
/// The op that changed the elements of a `sparse` gradient so that `row_gradients` returns nothing, such as a
/// clip or a mask. Null if there is no such op, and if a gradient that isn't sparse was added (tied weights).
const graph::OpDef* changed_row_gradient(const Tensor& gradient);

/// While it lives, `row_gradients` knows of tensors that this thread computes outside a capture.
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
    Tensor output;  // so that its address stays its own
    const graph::OpDef* op;
    graph::Attributes attributes;
    std::vector<Tensor> inputs;
    bool sparse;  // made of a gradient that is
  };
  std::vector<Call> calls_;
  RowGradientScope* outer_;
};

/// `updates` with zeros where `indices`, with which their shape begins, equal `padding`.
Tensor without_padding(const Tensor& updates, const Tensor& indices, int64_t padding);

/// Where the tensors of a call of `update_rows` stand. The row does what the row named by its attribute
/// `rule` (an update by elements, ops/optimizer/optimizer_updates.h) does, on the rows of n tables that are
/// listed; all others stay as they are, and so do their states.
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

/// Whether the update `rule` works by elements, as `update_rows` needs.
bool updates_by_elements(const graph::OpDef& rule);
/// Whether the update leaves parameter and states as they are where the gradient is zero, bit for bit.
bool zero_gradient_changes_nothing(const graph::OpDef& rule, const graph::Attributes& attributes);

}  // namespace ops
}  // namespace isochron
