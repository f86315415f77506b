// Linear algebra on batches of matrices: x of (..., M, N), factored in f32 or f64 without pivot thresholds.
// What has no result (a singular matrix, one that is not positive definite) throws kInvalidArgument naming
// the matrix within the batch when the op runs, before anything is written; on a device it ends the device
// (kDeviceLost), with a line on standard output that says the same. All are differentiable, twice,
// unless it is said otherwise. Errors are those of the backward stable algorithms: a small multiple of N x
// epsilon x condition number. All throw kShapeMismatch, kDtypeMismatch.
#pragma once

#include <utility>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The lower triangle up to the diagonal `diagonal` places above the main one, or the upper from there on;
/// else 0. Any dtype, (..., M, N).
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
/// The main diagonal of square matrices: (..., N, N) to (..., N). Any dtype.
Tensor diagonal(const Tensor& x);
/// The constant unit matrix (n, n).
Tensor eye(int64_t n, DType dtype = DType::kF32);

/// Lower L with L L^T = (x + x^T) / 2, that is x where it is symmetric. x: (..., N, N). The gradient is
/// symmetric, as in PyTorch (Murray, "Differentiation of the Cholesky decomposition", 2016). Throws when x is
/// not positive definite.
Tensor cholesky(const Tensor& x);

struct TriangularSolveOptions {
  bool lower = true;           // which triangle of `a` is read; the other may hold anything
  bool transpose = false;      // solve a^T x = b
  bool unit_diagonal = false;  // take the diagonal as ones, whatever is there
};
/// x with a x = b for triangular a. a: (..., N, N), b: (..., N, K); leading axes broadcast; result (..., N,
/// K). Throws when the diagonal holds a 0.
Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularSolveOptions options = {});

/// x with a x = b (a^T x = b where `transpose`), by LU with partial pivoting. Shapes as `triangular_solve`.
/// Throws when a is exactly singular.
Tensor solve(const Tensor& a, const Tensor& b, bool transpose = false);
/// a^-1 of (..., N, N). `solve` is faster and closer where the inverse is only multiplied.
Tensor inverse(const Tensor& a);

/// The sign (-1, 0, 1) and the logarithm of the absolute value of the determinant, each (...), of (..., N,
/// N): 0 and -inf when singular. The gradient needs a regular matrix and throws as `solve` otherwise.
std::pair<Tensor, Tensor> slogdet(const Tensor& a);
/// The determinant. Under- and overflows where slogdet does not; gradient as there.
Tensor determinant(const Tensor& a);

/// x = q r with orthonormal columns in q: (..., M, K), r upper triangular: (..., K, N), K = min(M, N), by
/// Householder reflections with LAPACK's signs. Differentiable for M >= N (kUnsupported otherwise) where x
/// has full rank.
std::pair<Tensor, Tensor> qr(const Tensor& x);

}  // namespace isochron
