// Ops in which all ranks of a group take part (comm/group/group.h). In a captured function they are part of
// the step like any other op: planned, sealed, profiled. Every rank must run the same collective ops in the
// same order. They are therefore never merged, removed or recomputed, and they are not allowed inside a loop
// or a branch (kUnsupported), because ranks could then run them different numbers of times. They run on the
// CPU; in a group of one rank they return their input.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "isochron/comm/group/group.h"
#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The ranks that take part; null means comm::world().
using RankGroup = std::shared_ptr<comm::Group>;

/// The sum over ranks of each tensor, all in one exchange (a bucket). The ranks' values are added in the
/// order of a binary tree over ranks (comm/group/tree_sum.h), so that every rank gets the same bits. Shapes
/// and dtypes must be the same on all ranks. f32, f64 and i64, also mixed. The gradient is the sum of the
/// ranks' gradients. Throws kInvalidArgument for an empty list, kDtypeMismatch.
std::vector<Tensor> all_reduce(std::span<const Tensor> tensors, const RankGroup& group);
/// The same for the gradients of an update. `with_notes` adds the contents of comm::RankNotes to the
/// exchange; set it once per update, for its last exchange.
std::vector<Tensor> all_reduce_gradients(std::span<const Tensor> tensors, const RankGroup& group,
                                         bool with_notes);
Tensor all_reduce(const Tensor& x, const RankGroup& group);
/// Concatenates the tensors (n, ...) of all ranks to (ranks n, ...), rank 0 first. Any dtype; the gradient is
/// computed by reduce_scatter. Throws kShapeMismatch for a scalar.
Tensor all_gather(const Tensor& x, const RankGroup& group);
/// Sums x (ranks n, ...) over ranks; rank r gets rows [r n, (r + 1) n) of the sum. f32, f64, i64; the
/// gradient is computed by all_gather. Throws kShapeMismatch unless the number of rows is divisible by the
/// number of ranks, kDtypeMismatch.
Tensor reduce_scatter(const Tensor& x, const RankGroup& group);
/// Returns the tensor of rank `root` on every rank. Any dtype; the gradient is the sum of all ranks'
/// gradients on `root` and zero on the other ranks. Throws kInvalidArgument if there is no such rank.
Tensor broadcast(const Tensor& x, int root, const RankGroup& group);

}  // namespace isochron
