// Normalization of vectors, similarities and distances, composed of other ops. Floating dtypes (others throw
// kDtypeMismatch); 16-bit floats are computed in f32.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// x divided by its norm along `axis`, or by `epsilon` if that is larger (PyTorch's F.normalize). Throws
/// kOutOfRange for the axis, kInvalidArgument unless p >= 1 and epsilon > 0.
Tensor normalize(const Tensor& x, double p = 2, int64_t axis = -1, double epsilon = 1e-12);
/// sum(a b) / (max(|a|, epsilon) max(|b|, epsilon)) over `axis`, which is removed. a and b broadcast with
/// each other. Throws kShapeMismatch, and the errors of `normalize`.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis = -1, double epsilon = 1e-8);
/// The p-norm of the difference of each row of a (..., N, D) and each row of b (..., M, D); result (..., N,
/// M) (PyTorch's cdist). Leading axes broadcast. For p = 2, differences of about 1e19 and more overflow in
/// f32. The gradient is then computed by matrix products, so its error is relative to the rows, not to their
/// differences. The gradient of a distance of 0 is 0. Throws kShapeMismatch, kDtypeMismatch, kInvalidArgument
/// unless p >= 1.
Tensor pairwise_distances(const Tensor& a, const Tensor& b, double p = 2);

}  // namespace isochron
