// Factorizations of a matrix by the kRowThreads threads of a block. Comes after rows_text.h in the compiled
// source. Panels of kPanel columns are factored column by column; the columns behind a panel are updated by
// products of tiles.
#ifndef ISOCHRON_OPS_CUDA_MATRIX_TEXT_H_
#define ISOCHRON_OPS_CUDA_MATRIX_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

constexpr unsigned kPanel = 32;
constexpr unsigned kPanelRows = kRowThreads / kPanel;  // that the threads take at a time
constexpr unsigned kMatrixTile = 64;                   // rows and columns of a tile of a product
constexpr unsigned kMatrixDepth = 16;                  // of its sums that it takes at a time
constexpr unsigned kSides = 64;                        // right-hand sides that are solved for at a time

/// Element (i, j) of a matrix lies at at[i * row + j * column].
template <typename T>
struct Strided {
  T* at;
  unsigned long long row, column;

  ISOCHRON_INLINE T& operator()(unsigned i, unsigned j) const { return at[i * row + j * column]; }
  ISOCHRON_INLINE Strided from(unsigned i, unsigned j) const { return {&(*this)(i, j), row, column}; }
  ISOCHRON_INLINE Strided transposed() const { return {at, column, row}; }
};

/// Shared memory of a block; only one of the two is in use at a time.
template <typename T>
union MatrixTiles {
  struct {
    T a[kMatrixDepth][kMatrixTile + 4], b[kMatrixDepth][kMatrixTile + 4];  // apart in the memory's banks
  } product;
  struct {
    T triangle[kPanel][kPanel + 1];
    T sides[kPanel][kSides];
  } solve;
};

/// tile[p][i] = from(i, p), or 0 beyond (rows, depth). Neighboring threads read neighbors in memory.
template <typename T>
ISOCHRON_SCALAR void load_product_tile(T (&tile)[kMatrixDepth][kMatrixTile + 4], Strided<T> from,
                                       unsigned rows, unsigned depth) {
  for (unsigned e = threadIdx.x; e < kMatrixTile * kMatrixDepth; e += kRowThreads) {
    const unsigned i = from.column == 1 ? e / kMatrixDepth : e % kMatrixTile;
    const unsigned p = from.column == 1 ? e % kMatrixDepth : e / kMatrixTile;
    tile[p][i] = i < rows && p < depth ? from(i, p) : T(0);
  }
}

/// C (m, n) = A B, or with `subtract` C - A B, by sums of k > 0 products. Synchronizes before reading A and
/// B, but not after writing C.
template <typename T>
ISOCHRON_SCALAR void multiply(MatrixTiles<T>& tiles, Strided<T> a, Strided<T> b, Strided<T> c, unsigned m,
                              unsigned n, unsigned k, bool subtract) {
  constexpr unsigned kEach = 4, kAcross = kMatrixTile / kEach;
  static_assert(kAcross * kAcross == kRowThreads, "each thread has some rows of some columns");
  const unsigned y = threadIdx.x / kAcross * kEach, x = threadIdx.x % kAcross * kEach;
  for (unsigned i0 = 0; i0 < m; i0 += kMatrixTile) {
    for (unsigned j0 = 0; j0 < n; j0 += kMatrixTile) {
      T sums[kEach][kEach] = {};
      for (unsigned p0 = 0; p0 < k; p0 += kMatrixDepth) {
        __syncthreads();
        load_product_tile(tiles.product.a, a.from(i0, p0), m - i0, k - p0);
        load_product_tile(tiles.product.b, b.from(p0, j0).transposed(), n - j0, k - p0);
        __syncthreads();
        ISOCHRON_UNROLL_BY(4)
        for (unsigned p = 0; p < kMatrixDepth; ++p) {
          T left[kEach], right[kEach];
          ISOCHRON_UNROLL
          for (unsigned u = 0; u < kEach; ++u) {
            left[u] = tiles.product.a[p][y + u];
            right[u] = tiles.product.b[p][x + u];
          }
          ISOCHRON_UNROLL
          for (unsigned u = 0; u < kEach; ++u) {
            ISOCHRON_UNROLL
            for (unsigned v = 0; v < kEach; ++v)
              sums[u][v] = ScalarMath<T>::mul_add(left[u], right[v], sums[u][v]);
          }
        }
      }
      ISOCHRON_UNROLL
      for (unsigned u = 0; u < kEach; ++u) {
        ISOCHRON_UNROLL
        for (unsigned v = 0; v < kEach; ++v) {
          const unsigned i = i0 + y + u, j = j0 + x + v;
          if (i < m && j < n) c(i, j) = subtract ? c(i, j) - sums[u][v] : sums[u][v];
        }
      }
    }
  }
}

/// This thread's column of the sides, solved for.
template <typename T>
ISOCHRON_SCALAR void solve_side(MatrixTiles<T>& tiles, bool lower, bool unit_diagonal, unsigned count) {
  const unsigned column = threadIdx.x;
  for (unsigned step = 0; step < count; ++step) {
    const unsigned i = lower ? step : count - 1 - step;
    T x = tiles.solve.sides[i][column];
    for (unsigned j = lower ? 0 : i + 1; j < (lower ? i : count); ++j)
      x = ScalarMath<T>::neg_mul_add(tiles.solve.triangle[i][j], tiles.solve.sides[j][column], x);
    tiles.solve.sides[i][column] = unit_diagonal ? x : x / tiles.solve.triangle[i][i];
  }
}

/// B (n, columns) = A^-1 B in place for the lower triangle of A, or the upper one. Synchronizes before
/// reading both, but not after writing B.
template <typename T>
ISOCHRON_SCALAR void solve_triangle(MatrixTiles<T>& tiles, Strided<T> a, bool lower, bool unit_diagonal,
                                    Strided<T> b, unsigned n, unsigned columns) {
  const unsigned panels = (n + kPanel - 1) / kPanel;
  for (unsigned panel = 0; panel < panels; ++panel) {
    const unsigned first = (lower ? panel : panels - 1 - panel) * kPanel;
    const unsigned count = n - first < kPanel ? n - first : kPanel;
    __syncthreads();
    for (unsigned e = threadIdx.x; e < kPanel * kPanel; e += kRowThreads) {
      const unsigned i = a.column == 1 ? e / kPanel : e % kPanel, j = a.column == 1 ? e % kPanel : e / kPanel;
      if (i < count && j < count) tiles.solve.triangle[i][j] = a(first + i, first + j);
    }
    for (unsigned side = 0; side < columns; side += kSides) {
      for (unsigned e = threadIdx.x; e < kPanel * kSides; e += kRowThreads) {
        const unsigned row = b.column == 1 ? e / kSides : e % kPanel;
        const unsigned column = b.column == 1 ? e % kSides : e / kPanel;
        if (row < count && side + column < columns)
          tiles.solve.sides[row][column] = b(first + row, side + column);
      }
      __syncthreads();
      if (threadIdx.x < kSides && side + threadIdx.x < columns)
        solve_side(tiles, lower, unit_diagonal, count);
      __syncthreads();
      for (unsigned e = threadIdx.x; e < kPanel * kSides; e += kRowThreads) {
        const unsigned row = b.column == 1 ? e / kSides : e % kPanel;
        const unsigned column = b.column == 1 ? e % kSides : e / kPanel;
        if (row < count && side + column < columns)
          b(first + row, side + column) = tiles.solve.sides[row][column];
      }
    }
    const unsigned rest = lower ? first + count : 0;
    multiply(tiles, a.from(rest, first), b.from(first, 0), b.from(rest, 0), lower ? n - rest : first, columns,
             count, true);
  }
}

/// The lower factor of the triangle in the tiles, but for its diagonal, which goes to `roots`. Returns the
/// first pivot that isn't positive, or `count`.
template <typename T>
ISOCHRON_SCALAR unsigned factor_positive(MatrixTiles<T>& tiles, T* roots, unsigned count) {
  auto& tile = tiles.solve.triangle;
  for (unsigned k = 0; k < count; ++k) {
    const T pivot = tile[k][k];
    if (!(pivot > T(0))) return k;
    const T root = ScalarMath<T>::sqrt(pivot);
    if (threadIdx.x > k && threadIdx.x < count) tile[threadIdx.x][k] /= root;
    if (threadIdx.x == k) roots[k] = root;
    __syncthreads();
    for (unsigned e = threadIdx.x; e < kPanel * kPanel; e += kRowThreads) {
      const unsigned i = e / kPanel, j = e % kPanel;
      if (j > k && i >= j && i < count) tile[i][j] -= tile[i][k] * tile[j][k];
    }
    __syncthreads();
  }
  return count;
}

/// A = L L^T in place for n rows, of which the lower triangle is read; above it there are zeros then. Returns
/// the pivot that isn't positive, which its first thread has put in its place, or n.
template <typename T>
ISOCHRON_SCALAR unsigned factor_cholesky(MatrixTiles<T>& tiles, T* at, unsigned n) {
  __shared__ T roots[kPanel];
  const Strided<T> a = {at, n, 1};
  for (unsigned first = 0; first < n; first += kPanel) {
    const unsigned count = n - first < kPanel ? n - first : kPanel, behind = first + count;
    const Strided<T> corner = a.from(first, first);
    __syncthreads();
    for (unsigned e = threadIdx.x; e < kPanel * kPanel; e += kRowThreads) {
      const unsigned i = e / kPanel, j = e % kPanel;
      if (i < count && j <= i) tiles.solve.triangle[i][j] = corner(i, j);
    }
    __syncthreads();
    const unsigned failed = factor_positive(tiles, roots, count);
    if (failed < count) {
      if (threadIdx.x == 0) corner(failed, failed) = tiles.solve.triangle[failed][failed];
      return first + failed;
    }
    for (unsigned e = threadIdx.x; e < kPanel * kPanel; e += kRowThreads) {
      const unsigned i = e / kPanel, j = e % kPanel;
      if (i < count && j <= i) corner(i, j) = i == j ? roots[i] : tiles.solve.triangle[i][j];
    }
    if (behind == n) break;
    const Strided<T> below = a.from(behind, first);
    solve_triangle(tiles, corner, true, false, below.transposed(), count, n - behind);
    for (unsigned j = 0; j < n - behind; j += kMatrixTile) {
      const unsigned rows = n - behind - j;
      multiply(tiles, below.from(j, 0), below.from(j, 0).transposed(), a.from(behind + j, behind + j), rows,
               rows < kMatrixTile ? rows : kMatrixTile, count, true);
    }
  }
  for (unsigned i = threadIdx.x / kPanel; i < n; i += kPanelRows) {
    for (unsigned j = i + 1 + threadIdx.x % kPanel; j < n; j += kPanel) a(i, j) = 0;
  }
  return n;
}

/// The largest magnitude that a thread has seen, and its row: of equal ones the first. NaN is chosen on the
/// diagonal and nowhere else.
template <typename T>
struct PivotChoice {
  T size;
  unsigned row;

  ISOCHRON_INLINE void join(PivotChoice other) {
    if (other.size > size || (other.size == size && other.row < row)) *this = other;
  }
  ISOCHRON_SCALAR PivotChoice of(T x, unsigned row, unsigned diagonal) {
    if (x == x) return {ScalarMath<T>::abs(x), row};
    return {row == diagonal ? static_cast<T>(double_of(0x7ff0000000000000ull)) : T(-1), row};
  }
};

/// The rows' choices of one column of a panel.
template <typename T>
struct PivotChoices {
  PivotChoice<T> of[kPanelRows];

  ISOCHRON_INLINE PivotChoice<T> best() const {
    PivotChoice<T> result = of[0];
    for (unsigned g = 1; g < kPanelRows; ++g) result.join(of[g]);
    return result;
  }
};

/// P A = L U for the columns [first, first + count) from row `first` on; rows are exchanged within the panel
/// alone. `order`: of all rows, exchanged with them.
template <typename T>
ISOCHRON_SCALAR void factor_lu_panel(Strided<T> a, unsigned n, unsigned first, unsigned count,
                                     unsigned* pivots, unsigned* order) {
  __shared__ PivotChoices<T> choices;
  const unsigned lane = threadIdx.x % kPanel, group = threadIdx.x / kPanel;
  const PivotChoice<T> none = {T(-2), n};
  PivotChoice<T> own = none;
  for (unsigned i = first + group; lane == 0 && i < n; i += kPanelRows)
    own.join(PivotChoice<T>::of(a(i, first), i, first));
  if (lane == 0) choices.of[group] = own;
  for (unsigned k = 0; k < count; ++k) {
    const unsigned row = first + k;
    __syncthreads();
    const unsigned best = choices.best().row;
    if (threadIdx.x < count && best != row) {
      const T held = a(row, first + lane);
      a(row, first + lane) = a(best, first + lane);
      a(best, first + lane) = held;
    }
    if (threadIdx.x == kPanel) {
      pivots[row] = best;
      const unsigned held = order[row];
      order[row] = order[best];
      order[best] = held;
    }
    __syncthreads();
    const T pivot = a(row, row);
    const bool divides = pivot != T(0);  // else all below is 0 as well
    for (unsigned i = row + 1 + threadIdx.x; divides && i < n; i += kRowThreads) a(i, row) /= pivot;
    __syncthreads();
    own = none;
    for (unsigned i = row + 1 + group; lane > k && lane < count && i < n; i += kPanelRows) {
      T& to = a(i, first + lane);
      if (divides) to -= a(i, row) * a(row, first + lane);
      if (lane == k + 1) own.join(PivotChoice<T>::of(to, i, row + 1));
    }
    if (lane == k + 1) choices.of[group] = own;
  }
}

/// P A = L U in place for n rows, L with a unit diagonal: row i was exchanged with row pivots[i], and row i
/// of P A is row order[i] of A.
template <typename T>
ISOCHRON_SCALAR void factor_lu(MatrixTiles<T>& tiles, T* at, unsigned n, unsigned* pivots, unsigned* order) {
  const Strided<T> a = {at, n, 1};
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) order[i] = i;
  for (unsigned first = 0; first < n; first += kPanel) {
    const unsigned count = n - first < kPanel ? n - first : kPanel, behind = first + count;
    __syncthreads();
    factor_lu_panel(a, n, first, count, pivots, order);
    for (unsigned e = threadIdx.x; e < n - count; e += kRowThreads) {
      const unsigned column = e < first ? e : e + count;
      for (unsigned i = first; i < behind; ++i) {
        const unsigned other = pivots[i];
        if (other == i) continue;
        const T held = a(i, column);
        a(i, column) = a(other, column);
        a(other, column) = held;
      }
    }
    if (behind == n) break;
    solve_triangle(tiles, a.from(first, first), true, true, a.from(first, behind), count, n - behind);
    multiply(tiles, a.from(behind, first), a.from(first, behind), a.from(behind, behind), n - behind,
             n - behind, count, true);
  }
}

/// The sign of the determinant and the logarithm of its size, from what factor_lu has left.
template <typename T>
ISOCHRON_SCALAR void determinant_of(const T* lu, const unsigned* pivots, unsigned n, T* sign, T* log_size) {
  __shared__ double parts[kRowThreads];
  double own_sign = 1, own_log = 0;
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    const double pivot = lu[i * (n + 1ull)];
    if (pivots[i] != i) own_sign = -own_sign;
    own_sign *= pivot > 0 ? 1 : (pivot < 0 ? -1 : pivot);  // 0 and NaN stay themselves
    own_log += ScalarMath<double>::log(ScalarMath<double>::abs(pivot));
  }
  own_sign = folded_by_block<ProductOf>(parts, own_sign);
  own_log = folded_by_block<SumOf>(parts, own_log);
  if (threadIdx.x != 0) return;
  *sign = static_cast<T>(own_sign == 0 ? 0 : own_sign);
  *log_size = static_cast<T>(own_log);
}

/// Copies kSides columns of b (n, columns), from `first` on, to x, rows in their `order`; null: as they are.
/// Returns where they begin.
template <typename T>
ISOCHRON_SCALAR Strided<T> begin_sides(const T* b, T* x, unsigned n, unsigned columns, unsigned first,
                                       const unsigned* order) {
  for (unsigned e = threadIdx.x; e / kSides < n; e += kRowThreads) {
    const unsigned i = e / kSides, column = first + e % kSides;
    if (column < columns)
      x[i * static_cast<unsigned long long>(columns) + column] =
          b[(order ? order[i] : i) * static_cast<unsigned long long>(columns) + column];
  }
  return {x + first, columns, 1};
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
