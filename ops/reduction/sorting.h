// Ops that order the elements along an axis. Any dtype. Numbers are ordered by value; -0 equals 0; NaN is
// larger than every number and equal to NaN (as in PyTorch and NumPy); false comes before true. Descending is
// the reverse order, so NaN comes first. Equal elements keep their order in both directions, so the result is
// deterministic. The gradient of the values goes to the elements that they were taken from; positions have no
// gradient. All throw kOutOfRange for the axis.
#pragma once

#include <utility>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The sorted elements along `axis`, and the original position (i64) of each.
std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// Only the positions: take_along_axis(x, argsort(x, axis), axis) is sorted.
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The k largest elements, largest first, or the k smallest, smallest first, and their positions (i64).
/// Throws kOutOfRange unless 0 <= k <= the axis' extent.
std::pair<Tensor, Tensor> top_k(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);

/// The position (i64) at which each value would be inserted into an ascending line: the number of its
/// elements that are smaller than the value, or, with `right`, smaller or equal (PyTorch's searchsorted, and
/// bucketize with swapped arguments). sorted: (S), values: any shape; or (..., S) and (..., V) with equal
/// leading axes. NaN comes last. Both have the same dtype, any but bool; no gradient. O(log S) per value. If
/// a line isn't sorted, the result is an arbitrary position. Throws kShapeMismatch, kDtypeMismatch.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace isochron
