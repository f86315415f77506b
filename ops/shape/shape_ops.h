// Ops that move elements without computing on them.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The same elements in row-major order under another shape; one extent may be -1 and is inferred. Costs
/// nothing. Throws kShapeMismatch, and kInvalidArgument for more than one -1.
Tensor reshape(const Tensor& x, const Dims& shape);
/// Axis i of the result is axis permutation[i] of x, counted from the end if negative; an empty permutation
/// reverses the axes. Throws kOutOfRange for an axis, kInvalidArgument for a repeated or missing axis.
Tensor transpose(const Tensor& x, const Dims& permutation = {});
/// Axes `a` and `b` exchanged, counted from the end if negative. Throws kOutOfRange.
Tensor swap_axes(const Tensor& x, int64_t a, int64_t b);
/// Axes first to last in one, counted from the end if negative (PyTorch's flatten). Throws kOutOfRange,
/// kInvalidArgument where the first comes after the last.
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
/// Coordinates of a grid: for vectors of extents E_0, E_1, ... as many tensors of shape (E_0, E_1, ...); the
/// elements of the i-th vary along axis i alone (PyTorch's and NumPy's indexing="ij"). Throws kShapeMismatch
/// for what isn't a vector, kInvalidArgument for none or more than 8.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors);
/// (N, H, W, C r^2) to (N, H r, W r, C), and back; channel c r^2 + i r + j moves to row i and column j of
/// a block, in PyTorch's order. Throw kShapeMismatch unless r^2 divides the channels, r height and width.
Tensor pixel_shuffle(const Tensor& x, int64_t r);
Tensor pixel_unshuffle(const Tensor& x, int64_t r);
/// Repeats along axes of extent 1 (and new leading ones). Throws kShapeMismatch.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace isochron
