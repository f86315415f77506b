// Ops that select elements by index: gather and scatter, one-hot, arg-max.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The slices of x at `indices` (i32 or i64, any shape) along `axis`: the result's shape is x's with that
/// axis replaced by the shape of `indices`. x: (V, D), indices (B, T), axis 0: result (B, T, D). When the op
/// runs, an index outside [0, extent) throws kOutOfRange naming position, index and bound; all indices are
/// checked before anything is written.
Tensor gather(const Tensor& x, const Tensor& indices, int64_t axis = 0);
/// The reverse of `gather`: zeros of extent `extent` along `axis`, to which `updates` are added at `indices`,
/// in order, so the result is deterministic. updates: the shape that `gather` of the result returns. Throws
/// like the next function.
Tensor scatter_add(const Tensor& updates, const Tensor& indices, int64_t extent, int64_t axis = 0);
/// Returns `base` with `updates` added to its slices at `indices` along `axis` (PyTorch's index_add, for
/// indices of any shape). The updates of a slice are summed first, in order, then added to the base. updates:
/// the shape that `gather(base, indices, axis)` returns. Throws kShapeMismatch, kDtypeMismatch, and the
/// errors of `gather`.
Tensor scatter_add(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis = 0);
/// Returns `base` with its slices at `indices` along `axis` replaced by `updates` (PyTorch's index_copy, for
/// indices of any shape); if an index occurs more than once, its last update wins. Any dtype. Costs
/// O(updates) instead of O(base) if nothing reads the base afterwards, as in `v.assign(scatter(v, indices,
/// updates))` in a captured step. Shapes and errors as `scatter_add`.
Tensor scatter(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis = 0);
/// Returns `base` with each element of its slices at `indices` along `axis` replaced by the maximum or
/// minimum of itself and its updates (PyTorch's index_reduce with "amax", "amin"). Any dtype but bool; NaN
/// wins. The gradient goes to the element that was chosen; of equal ones to the base's, otherwise to the
/// first update's. Runs in place like `scatter`. Example, the maximum of each group of rows, with 0 for empty
/// groups: y = scatter_max(full({groups, D}, -INFINITY), group, x), then where(is_inf(y), 0, y). Shapes and
/// errors as `scatter_add`.
Tensor scatter_max(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis = 0);
Tensor scatter_min(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis = 0);
/// A new last axis of extent `depth` that is 1 at the index and 0 elsewhere. indices: (...), i32 or i64;
/// result (..., depth). Throws kInvalidArgument unless depth >= 1, and like `gather`.
Tensor one_hot(const Tensor& indices, int64_t depth, DType dtype = DType::kF32);

/// The index (i64) of the first largest or smallest element along `axis`; NaN counts as both. Without an
/// axis, the index in the flattened tensor. Throws kOutOfRange for the axis, kShapeMismatch if the axis is
/// empty.
Tensor argmax(const Tensor& x, int64_t axis, bool keep_dims = false);
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x, int64_t axis, bool keep_dims = false);
Tensor argmin(const Tensor& x);

}  // namespace isochron
