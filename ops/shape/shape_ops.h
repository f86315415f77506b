// Ops that move elements without computing on them.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The same elements in row-major order with another shape; one extent may be -1, which means inferred.
/// Copies nothing. Throws kShapeMismatch, and kInvalidArgument for more than one -1.
Tensor reshape(const Tensor& x, const Dims& shape);
/// Axis i of the result is axis permutation[i] of x, counted from the end if negative; an empty permutation
/// reverses the axes. Throws kOutOfRange for an axis, kInvalidArgument for a repeated or missing axis.
Tensor transpose(const Tensor& x, const Dims& permutation = {});
/// Axes `a` and `b` exchanged, counted from the end if negative. Throws kOutOfRange.
Tensor swap_axes(const Tensor& x, int64_t a, int64_t b);
/// Merges the axes `first` to `last` into one (PyTorch's flatten); negative axes count from the end. Throws
/// kOutOfRange, kInvalidArgument if the first comes after the last.
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
/// The coordinates of a grid: for vectors of extents E_0, E_1, ..., one tensor of shape (E_0, E_1, ...) each;
/// the i-th varies along axis i only (indexing="ij" in PyTorch and NumPy). Throws kShapeMismatch if an
/// argument isn't a vector, kInvalidArgument for none or more than 8.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors);
/// (N, H, W, C r^2) to (N, H r, W r, C), and back. As in PyTorch, channel c r^2 + i r + j moves to row i and
/// column j of a block. pixel_shuffle throws kShapeMismatch unless r^2 divides the channels, pixel_unshuffle
/// unless r divides height and width.
Tensor pixel_shuffle(const Tensor& x, int64_t r);
Tensor pixel_unshuffle(const Tensor& x, int64_t r);
/// Repeats along axes of extent 1 (and new leading ones). Throws kShapeMismatch.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace isochron
