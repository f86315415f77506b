#include "isochron/backends/cpu/linalg/factorization.h"

#include <algorithm>
#include <cmath>

#include "isochron/backends/cpu/matmul/matmul.h"

namespace isochron::ops {
namespace {

constexpr int64_t kBlock = 32;  // smaller blocks use the plain loops

/// C (m, n) -= A B. Element (i, p) of A at a[i * a_row + p * a_column]; rows of B and C contiguous.
template <typename T>
void subtract_product(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_column,
                      const T* b, int64_t b_row, T* c, int64_t c_row, T* scratch) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kColumns = kFactorizationScratch / kRows;
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t columns = std::min(kColumns, n - j);
    for (int64_t i = 0; i < m; i += kRows) {
      const int64_t rows = std::min(kRows, m - i);
      small_matmul<T>(rows, columns, k, a + i * a_row, a_row, a_column, b + j, b_row, scratch);
      for (int64_t r = 0; r < rows; ++r) {
        T* to = c + (i + r) * c_row + j;
        for (int64_t s = 0; s < columns; ++s) to[s] -= scratch[r * columns + s];
      }
    }
  }
}

/// to -= factor * from.
template <typename T>
void subtract_row(T* to, const T* from, T factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] -= factor * from[i];
}

template <typename T>
void swap_rows(T* a, int64_t stride, int64_t i, int64_t j, int64_t columns) {
  if (i != j) std::swap_ranges(a + i * stride, a + i * stride + columns, a + j * stride);
}

template <typename T>
void factor_lu_panel(T* a, int64_t rows, int64_t columns, int64_t stride, int64_t* pivots) {
  for (int64_t k = 0; k < columns; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < rows; ++i) {
      if (std::abs(a[i * stride + k]) > std::abs(a[best * stride + k])) best = i;
    }
    pivots[k] = best;
    swap_rows(a, stride, k, best, columns);
    const T pivot = a[k * stride + k];
    if (pivot == 0) continue;  // then all elements below it are 0 too
    for (int64_t i = k + 1; i < rows; ++i) {
      T* row = a + i * stride;
      row[k] /= pivot;
      subtract_row(row + k + 1, a + k * stride + k + 1, row[k], columns - k - 1);
    }
  }
}

/// The Householder vector of column x (count elements, `stride` apart): H x = (beta, 0, ...) with H = 1 - tau
/// v v^T. Overwrites x[0] with beta and the other elements with v, without v's leading 1. Returns tau.
template <typename T>
T make_reflection(T* x, int64_t count, int64_t stride) {
  double largest = 0;
  bool any = false;
  for (int64_t i = 1; i < count; ++i) {
    any = any || x[i * stride] != 0;  // NaN as well
    largest = std::max(largest, std::abs(static_cast<double>(x[i * stride])));
  }
  if (!any) return 0;
  double squares = 0;  // of x / largest, which neither overflow nor underflow
  for (int64_t i = 1; i < count; ++i) squares += std::pow(static_cast<double>(x[i * stride]) / largest, 2);
  const double alpha = static_cast<double>(x[0]);
  const double beta = -std::copysign(std::hypot(alpha, largest * std::sqrt(squares)), alpha);
  for (int64_t i = 1; i < count; ++i)
    x[i * stride] = static_cast<T>(static_cast<double>(x[i * stride]) / (alpha - beta));
  x[0] = static_cast<T>(beta);
  return static_cast<T>((beta - alpha) / beta);
}

/// B (count rows) = H B for a reflection H. v holds its vector without the leading 1, with elements
/// `v_stride` apart.
template <typename T>
void reflect(const T* v, int64_t v_stride, T tau, T* b, int64_t count, int64_t columns, int64_t b_stride,
             T* sums) {
  std::copy_n(b, columns, sums);
  for (int64_t i = 1; i < count; ++i) subtract_row(sums, b + i * b_stride, -v[i * v_stride], columns);
  subtract_row(b, sums, tau, columns);
  for (int64_t i = 1; i < count; ++i) subtract_row(b + i * b_stride, sums, tau * v[i * v_stride], columns);
}

/// `count` reflections combined into one, 1 - V T V^T (the compact WY form of Schreiber and Van Loan, 1989),
/// and scratch memory.
template <typename T>
struct BlockScratch {
  T* v;         // (rows, count)
  T* t;         // (count, count)
  T* gram;      // V^T V
  T* products;  // (count, columns)
  T* more;      // (count, columns)
  T* tile;      // for subtract_product
  BlockScratch(T* memory, int64_t m, int64_t n)
      : v(memory),
        t(v + m * kBlock),
        gram(t + kBlock * kBlock),
        products(gram + kBlock * kBlock),
        more(products + n * kBlock),
        tile(more + n * kBlock) {}
};

/// Computes V and T from the reflections whose vectors lie below the diagonal of a (rows, count).
template <typename T>
void join_reflections(const T* a, int64_t a_stride, int64_t rows, int64_t count, const T* taus,
                      const BlockScratch<T>& block) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < count; ++c)
      block.v[i * count + c] = i > c ? a[i * a_stride + c] : T(i == c ? 1 : 0);
  }
  small_matmul<T>(count, count, rows, block.v, int64_t{1}, count, block.v, count, block.gram);
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t p = 0; p < count; ++p) {
      T sum = 0;
      for (int64_t s = p; s < c; ++s) sum += block.t[p * count + s] * block.gram[s * count + c];
      block.t[p * count + c] = p < c ? -taus[c] * sum : (p == c ? taus[c] : T(0));
    }
  }
}

/// B (rows, columns) = (1 - V T V^T) B; with T^T instead of T if `transpose`.
template <typename T>
void reflect_block(const BlockScratch<T>& block, int64_t rows, int64_t count, bool transpose, T* b,
                   int64_t columns, int64_t b_stride) {
  small_matmul<T>(count, columns, rows, block.v, int64_t{1}, count, b, b_stride, block.products);
  small_matmul<T>(count, columns, count, block.t, transpose ? 1 : count, transpose ? count : 1,
                  block.products, columns, block.more);
  subtract_product(rows, columns, count, block.v, count, int64_t{1}, block.more, columns, b, b_stride,
                   block.tile);
}

}  // namespace

int64_t qr_scratch_elems(int64_t m, int64_t n) {
  return std::min(m, n) + kBlock * (m + 2 * kBlock + 2 * n) + kFactorizationScratch;
}

template <typename T>
void solve_triangular(const T* a, int64_t n, int64_t a_stride, Triangle triangle, T* b, int64_t columns,
                      int64_t b_stride, T* scratch) {
  const int64_t row = triangle.transpose ? 1 : a_stride;
  const int64_t column = triangle.transpose ? a_stride : 1;
  const bool forward = triangle.lower != triangle.transpose;
  if (n > kBlock) {
    const int64_t half = n / 2;
    const int64_t first = forward ? 0 : half;  // the half that doesn't depend on the other
    const int64_t second = forward ? half : 0;
    const int64_t first_count = forward ? half : n - half;
    solve_triangular(a + first * (a_stride + 1), first_count, a_stride, triangle, b + first * b_stride,
                     columns, b_stride, scratch);
    subtract_product(n - first_count, columns, first_count, a + second * row + first * column, row, column,
                     b + first * b_stride, b_stride, b + second * b_stride, b_stride, scratch);
    solve_triangular(a + second * (a_stride + 1), n - first_count, a_stride, triangle, b + second * b_stride,
                     columns, b_stride, scratch);
    return;
  }
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = forward ? step : n - 1 - step;
    T* to = b + i * b_stride;
    for (int64_t j = forward ? 0 : i + 1; j < (forward ? i : n); ++j) {
      subtract_row(to, b + j * b_stride, a[i * row + j * column], columns);
    }
    if (triangle.unit_diagonal) continue;
    const T diagonal = a[i * (a_stride + 1)];
    for (int64_t k = 0; k < columns; ++k) to[k] /= diagonal;
  }
}

template <typename T>
int64_t factor_cholesky(T* a, int64_t n, int64_t stride, T* scratch) {
  if (n > kBlock) {
    const int64_t half = n / 2;
    const int64_t rest = n - half;
    const int64_t failed = factor_cholesky(a, half, stride, scratch);
    if (failed >= 0) return failed;
    T* right = a + half;
    T* below = a + half * (stride + 1);
    solve_triangular(a, half, stride, {.lower = false, .transpose = true}, right, rest, stride, scratch);
    subtract_product(rest, rest, half, right, int64_t{1}, stride, right, stride, below, stride, scratch);
    const int64_t failed_below = factor_cholesky(below, rest, stride, scratch);
    return failed_below < 0 ? -1 : half + failed_below;
  }
  for (int64_t k = 0; k < n; ++k) {
    T* row = a + k * stride;
    for (int64_t p = 0; p < k; ++p) subtract_row(row + k, a + p * stride + k, a[p * stride + k], n - k);
    if (!(row[k] > 0)) return k;
    const T root = std::sqrt(row[k]);
    for (int64_t j = k; j < n; ++j) row[j] /= root;
  }
  return -1;
}

template <typename T>
void factor_lu(T* a, int64_t rows, int64_t columns, int64_t stride, int64_t* pivots, T* scratch) {
  if (columns <= kBlock) return factor_lu_panel(a, rows, columns, stride, pivots);
  const int64_t half = columns / 2;
  const int64_t rest = columns - half;
  T* right = a + half;
  T* below = a + half * stride;
  factor_lu(a, rows, half, stride, pivots, scratch);
  for (int64_t i = 0; i < half; ++i) swap_rows(right, stride, i, pivots[i], rest);
  solve_triangular(a, half, stride, {.lower = true, .unit_diagonal = true}, right, rest, stride, scratch);
  subtract_product(rows - half, rest, half, below, stride, int64_t{1}, right, stride, below + half, stride,
                   scratch);
  factor_lu(below + half, rows - half, rest, stride, pivots + half, scratch);
  for (int64_t i = half; i < columns; ++i) {
    pivots[i] += half;
    swap_rows(a, stride, i, pivots[i], half);
  }
}

template <typename T>
void factor_qr(T* a, int64_t m, int64_t n, T* q, T* r, T* scratch) {
  const int64_t k = std::min(m, n);
  T* taus = scratch;
  const BlockScratch<T> block(scratch + k, m, n);
  for (int64_t j = 0; j < k; j += kBlock) {
    const int64_t count = std::min(kBlock, k - j);
    T* corner = a + j * (n + 1);
    for (int64_t c = 0; c < count; ++c) {
      T* pivot = corner + c * (n + 1);
      taus[j + c] = make_reflection(pivot, m - j - c, n);
      reflect(pivot, n, taus[j + c], pivot + 1, m - j - c, count - c - 1, n, block.products);
    }
    if (j + count == n) continue;
    join_reflections(corner, n, m - j, count, taus + j, block);
    reflect_block(block, m - j, count, true, corner + count, n - j - count, n);
  }
  for (int64_t i = 0; i < k; ++i) {
    std::fill_n(r + i * n, i, T(0));
    std::copy(a + i * n + i, a + (i + 1) * n, r + i * n + i);
  }
  std::fill_n(q, m * k, T(0));
  for (int64_t i = 0; i < k; ++i) q[i * (k + 1)] = 1;
  for (int64_t j = (k - 1) / kBlock * kBlock; j >= 0 && k > 0; j -= kBlock) {
    // Columns before j are still columns of the identity matrix.
    const int64_t count = std::min(kBlock, k - j);
    join_reflections(a + j * (n + 1), n, m - j, count, taus + j, block);
    reflect_block(block, m - j, count, false, q + j * (k + 1), k - j, k);
  }
}

#define ISOCHRON_FACTORIZATIONS(T)                                                                   \
  template int64_t factor_cholesky<T>(T*, int64_t, int64_t, T*);                                     \
  template void factor_lu<T>(T*, int64_t, int64_t, int64_t, int64_t*, T*);                           \
  template void solve_triangular<T>(const T*, int64_t, int64_t, Triangle, T*, int64_t, int64_t, T*); \
  template void factor_qr<T>(T*, int64_t, int64_t, T*, T*, T*);
ISOCHRON_FACTORIZATIONS(float)
ISOCHRON_FACTORIZATIONS(double)
#undef ISOCHRON_FACTORIZATIONS

}  // namespace isochron::ops
