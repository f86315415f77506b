// Elements found by one index each along an axis, as against the slices of indexing.h: NumPy's
// take_along_axis, PyTorch's gather and scatter_add. Each is the other's gradient.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// result[..., k, ...] = x[..., indices[..., k, ...], ...]. indices: i32 or i64, as many axes as x; all axes
/// but `axis` broadcast (PyTorch takes a smaller extent there for the beginning of x: `narrow` x first).
/// Throws kShapeMismatch, kDtypeMismatch, kOutOfRange for the axis, and when run kOutOfRange naming position,
/// index and bound; none is written before all are checked.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis);

/// base, to which each of `updates` is added at its index: result[..., indices[..., k, ...], ...] +=
/// updates[..., k, ...]. indices and updates broadcast with each other and, but for `axis`, to the base. The
/// updates of one element are summed first, in order (16-bit floats in f32), so the result is always the
/// same. Not defined on bool. Throws as `take_along_axis`.
Tensor put_add_along_axis(const Tensor& base, const Tensor& indices, const Tensor& updates, int64_t axis);

/// The same on a base of zeros, of extent `extent` along `axis`; updates and indices have one shape.
Tensor put_add_along_axis(const Tensor& updates, const Tensor& indices, int64_t extent, int64_t axis);

}  // namespace isochron
