// Dense factorizations of one matrix on one thread, T = float or double. They are recursive down to blocks
// for the innermost loops, and compute the rest with products by `small_matmul`, so that most of the work is
// vectorized. Eigen's functions take up to 2.6 times as long (docs/cpu.md, "Linear algebra").
#pragma once

#include <cstdint>

namespace isochron::ops {

/// The number of elements of `scratch` for each call.
inline constexpr int64_t kFactorizationScratch = 64 * 128;

/// A = U^T U in place (row-major, rows `stride` apart). Only the upper triangle of A is read and written.
/// Returns -1, or the row whose pivot wasn't positive; A then holds that pivot on its diagonal.
template <typename T>
int64_t factor_cholesky(T* a, int64_t n, int64_t stride, T* scratch);

/// P A = L U in place for rows >= columns, L with a unit diagonal. Row i was exchanged with row pivots[i]. If
/// all possible pivots of a column are 0, its diagonal element is 0.
template <typename T>
void factor_lu(T* a, int64_t rows, int64_t columns, int64_t stride, int64_t* pivots, T* scratch);

struct Triangle {
  bool lower = true;       // which triangle of the memory is read
  bool transpose = false;  // whether op(A) is the transpose
  bool unit_diagonal = false;
};
/// B = op(A)^-1 B in place. a: (n, n), b: (n, columns), rows a_stride and b_stride apart.
template <typename T>
void solve_triangular(const T* a, int64_t n, int64_t a_stride, Triangle triangle, T* b, int64_t columns,
                      int64_t b_stride, T* scratch);

/// The number of elements of `scratch` for `factor_qr`.
int64_t qr_scratch_elems(int64_t m, int64_t n);
/// A = Q R by Householder reflections with LAPACK's signs. a: (m, n), overwritten; k = min(m, n); q: (m, k),
/// r: (k, n), all contiguous. `scratch` has qr_scratch_elems(m, n) elements.
template <typename T>
void factor_qr(T* a, int64_t m, int64_t n, T* q, T* r, T* scratch);

}  // namespace isochron::ops
