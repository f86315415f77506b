// Dense factorizations of one matrix on one thread, T = float or double. They recurse until a block fits the
// innermost loops; what lies between are products by `small_matmul`, so that most of the work runs on
// vectors. Eigen's counterparts take up to 2.6 times as long (docs/cpu.md, "Linear algebra").
#pragma once

#include <cstdint>

namespace isochron::ops {

/// Elements of scratch that each call needs.
inline constexpr int64_t kFactorizationScratch = 64 * 128;

/// A = U^T U in place (row-major, rows `stride` apart). Only the upper triangle of A is read and written.
/// Returns -1, or the row whose pivot was not positive; that pivot is then in its place.
template <typename T>
int64_t factor_cholesky(T* a, int64_t n, int64_t stride, T* scratch);

/// P A = L U in place for rows >= columns, L with a unit diagonal. Row i was exchanged with row pivots[i]. A
/// column whose possible pivots are all 0 leaves a 0 on the diagonal.
template <typename T>
void factor_lu(T* a, int64_t rows, int64_t columns, int64_t stride, int64_t* pivots, T* scratch);

struct Triangle {
  bool lower = true;       // which triangle of the memory is read
  bool transpose = false;  // and whether it stands for its transpose
  bool unit_diagonal = false;
};
/// B = op(A)^-1 B in place. a: (n, n), b: (n, columns), rows a_stride and b_stride apart.
template <typename T>
void solve_triangular(const T* a, int64_t n, int64_t a_stride, Triangle triangle, T* b, int64_t columns,
                      int64_t b_stride, T* scratch);

/// Elements of scratch for `factor_qr`.
int64_t qr_scratch_elems(int64_t m, int64_t n);
/// A = Q R by Householder reflections with LAPACK's signs. a: (m, n), overwritten; k = min(m, n); q: (m, k),
/// r: (k, n), all contiguous. `scratch` here: qr_scratch_elems(m, n).
template <typename T>
void factor_qr(T* a, int64_t m, int64_t n, T* q, T* r, T* scratch);

}  // namespace isochron::ops
