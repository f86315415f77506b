// Matrix products.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Matrix product over the last two axes; leading axes broadcast.
/// a: (..., M, K), or (..., K, M) where transpose_a; b: (..., K, N), or (..., N, K) where transpose_b; result
/// (..., M, N). A vector (K) on the left counts as a row (1, K), on the right as a column (K, 1), and that
/// axis is left out of the result, as in NumPy; it isn't transposed. Floating dtypes; 16-bit ones accumulate
/// in f32. Throws kShapeMismatch, kDtypeMismatch.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

}  // namespace isochron
