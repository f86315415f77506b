// Linear algebra on batches of matrices: x of (..., M, N), factored in f32 or f64 without pivot thresholds.
// If a matrix has no result (it is singular, or not positive definite), the op throws kInvalidArgument when
// it runs, naming the matrix within the batch, before anything is written. A device kernel can't throw: there
// it prints the same message to standard output and traps, and later calls throw kDeviceLost. All ops are
// twice differentiable unless stated otherwise. The algorithms are backward stable: errors are a small
// multiple of N x epsilon x condition number. All throw kShapeMismatch, kDtypeMismatch.
#pragma once

#include <utility>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// tril keeps the elements up to the diagonal `diagonal` places above the main diagonal, triu those from that
/// diagonal on; all others become 0. Any dtype, (..., M, N).
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
/// The main diagonal of square matrices: (..., N, N) to (..., N). Any dtype.
Tensor diagonal(const Tensor& x);
/// Matrices with x on the main diagonal, else 0: (..., N) to (..., N, N) (PyTorch's diag_embed). Any dtype.
Tensor diagonal_matrix(const Tensor& x);
/// The sum of the main diagonal of square matrices: (..., N, N) to (...).
Tensor trace(const Tensor& x);
/// a_i b_j: (N) and (M) to (N, M).
Tensor outer(const Tensor& a, const Tensor& b);
/// The constant unit matrix (n, n).
Tensor eye(int64_t n, DType dtype = DType::kF32);

/// The lower triangular L with L L^T = (x + x^T) / 2, which is x if x is symmetric. x: (..., N, N). The
/// gradient is symmetric, as in PyTorch (Murray, "Differentiation of the Cholesky decomposition", 2016).
/// Throws if x isn't positive definite.
Tensor cholesky(const Tensor& x);

struct TriangularSolveOptions {
  bool lower = true;           // which triangle of `a` is read; the other may hold anything
  bool transpose = false;      // solve a^T x = b
  bool unit_diagonal = false;  // treat the diagonal as ones, whatever it holds
};
/// Solves a x = b for triangular a. a: (..., N, N), b: (..., N, K); leading axes broadcast; result (..., N,
/// K). Throws if the diagonal contains a 0.
Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularSolveOptions options = {});

/// Solves a x = b (a^T x = b if `transpose`), by LU with partial pivoting. Shapes as in `triangular_solve`.
/// Throws if a is exactly singular.
Tensor solve(const Tensor& a, const Tensor& b, bool transpose = false);
/// a^-1 of (..., N, N). If the inverse is only used in a product, `solve` is faster and more accurate.
Tensor inverse(const Tensor& a);

/// The sign (-1, 0, 1) and the logarithm of the absolute value of the determinant, each (...), of (..., N,
/// N); 0 and -inf for a singular matrix. The gradient requires a nonsingular matrix and otherwise throws like
/// `solve`.
std::pair<Tensor, Tensor> slogdet(const Tensor& a);
/// The determinant, which may underflow or overflow even if slogdet doesn't. The same holds for the gradient
/// as for slogdet.
Tensor determinant(const Tensor& a);

/// x = q r with orthonormal columns in q: (..., M, K), r upper triangular: (..., K, N), K = min(M, N), by
/// Householder reflections with LAPACK's signs. Differentiable for M >= N (kUnsupported otherwise) where x
/// has full rank.
std::pair<Tensor, Tensor> qr(const Tensor& x);

}  // namespace isochron
