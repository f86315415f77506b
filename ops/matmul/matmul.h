// Matrix products.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Matrix product over the last two axes; leading axes broadcast. a: (..., M, K), or (..., K, M) if
/// transpose_a; b: (..., K, N), or (..., N, K) if transpose_b; result (..., M, N). As in NumPy, a vector (K)
/// on the left counts as a row (1, K), on the right as a column (K, 1), and the added axis is removed from
/// the result; vectors aren't transposed. Floating dtypes; 16-bit floats are accumulated in f32. Throws
/// kShapeMismatch, kDtypeMismatch.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

}  // namespace isochron
