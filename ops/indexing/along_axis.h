// Ops that select single elements by an index along an axis, in contrast to indexing.h, which selects slices:
// NumPy's take_along_axis, PyTorch's gather and scatter_add. Each op is the other's gradient.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// result[..., k, ...] = x[..., indices[..., k, ...], ...] (PyTorch's gather). indices: i32 or i64, of x's
/// rank; all axes but `axis` broadcast. (In PyTorch, an index axis may be shorter than x's, and only the
/// beginning of x is read; here, `narrow` x first.) Throws kShapeMismatch, kDtypeMismatch, kOutOfRange for
/// the axis. When run, throws kOutOfRange for an index outside [0, extent), naming its position and the
/// bound; all indices are checked before anything is written.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis);

/// Returns `base` with each of `updates` added at its index: result[..., indices[..., k, ...], ...] +=
/// updates[..., k, ...]. indices and updates broadcast with each other and, except along `axis`, to the base.
/// The updates of one element are summed first, in order (16-bit floats in f32), so the result is
/// deterministic. Not defined for bool. Throws the errors of `take_along_axis`.
Tensor put_add_along_axis(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis);

/// The same on a base of zeros with extent `extent` along `axis`; updates and indices have the same shape.
/// Also throws kInvalidArgument for a negative extent.
Tensor put_add_along_axis(const Tensor& updates, const Tensor& indices, int64_t extent, int64_t axis);

}  // namespace isochron
