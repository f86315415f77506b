// Lengths of vectors, and how far they are apart: composed of other ops. Floating dtypes; 16-bit floats are
// computed in f32. All throw kDtypeMismatch otherwise.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// x divided by its norm along `axis`, or by `epsilon` if that is larger (PyTorch's F.normalize). Throws
/// kOutOfRange for the axis, kInvalidArgument unless p >= 1 and epsilon > 0.
Tensor normalize(const Tensor& x, double p = 2, int64_t axis = -1, double epsilon = 1e-12);
/// sum(a b) / (|a| |b|) along `axis`, which the result lacks; lengths are at least `epsilon`. a and b
/// broadcast with each other. Throws kShapeMismatch, and as `normalize`.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis = -1, double epsilon = 1e-8);
/// The p-norm of every difference of a row of a (..., N, D) and a row of b (..., M, D): (..., N, M)
/// (PyTorch's cdist). Leading axes broadcast. For p = 2, differences of about 1e19 and more overflow in f32,
/// and the gradient is made of products of matrices, so its error is relative to the rows, not to their
/// differences. The gradient where the distance is 0 is 0. Throws kShapeMismatch, kDtypeMismatch,
/// kInvalidArgument unless p >= 1.
Tensor pairwise_distances(const Tensor& a, const Tensor& b, double p = 2);

}  // namespace isochron
