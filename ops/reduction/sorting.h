// Ops that order the elements along an axis. Any dtype. Numbers are ordered by value; -0 equals 0; NaN is
// larger than every number and equal to NaN (as in PyTorch and NumPy); false comes before true. Descending is
// the reverse order, so NaN comes first. Equal elements keep their order in both directions, so the result is
// deterministic. The gradient of the values goes to the elements that they were taken from; positions have no
// gradient. All throw kOutOfRange for the axis.
#pragma once

#include <utility>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The elements in order along `axis`, and the position (i64) that each had.
std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The positions alone: take_along_axis(x, argsort(x, axis), axis) is sorted.
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The k largest elements, largest first, or the k smallest, smallest first, and their positions (i64).
/// Throws kOutOfRange unless 0 <= k <= the axis' extent.
std::pair<Tensor, Tensor> top_k(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);

/// For each value the number of elements of an ascending line that are smaller, or with `right` at most as
/// large: where it would be inserted, i64 (PyTorch's searchsorted; its bucketize with the boundaries first).
/// sorted: (S), values of any shape; or (..., S) and (..., V) with equal leading axes. NaN comes last. Any
/// one dtype but bool; no gradient. O(log S) each. Lines that aren't sorted give any position. Throws
/// kShapeMismatch, kDtypeMismatch.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace isochron
