// Ops that order the elements along an axis. Any dtype. Order: numbers by size, -0 equal to 0, NaN larger
// than all and equal to NaN (as in PyTorch and NumPy), false before true; descending is the reverse, so NaN
// comes first. Elements that are equal keep their order in either direction: the result is always the same.
// The gradient of the values goes to where they were taken from; positions have none. All throw kOutOfRange
// for the axis.
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

}  // namespace isochron
