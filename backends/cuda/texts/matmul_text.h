// Matrix products of generated kernels; behind element_prelude() in their text. Plain and deterministic: what
// serves where no library does.
#ifndef ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_
#define ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// Tile (`tile_row`, `tile_column`) of c (m x n) = a times b, a thread an element: `a(row, p)` and
/// `b(p, column)` give elements for p in [begin, end), `c(row, column, sum)` takes them. Sums run in `Sum`,
/// in the order of p. Of a, neighbours in memory have neighbouring rows where kRowsOfA, else neighbouring p;
/// of b neighbouring p where kRowsOfB, else neighbouring columns.
template <typename Sum, bool kRowsOfA, bool kRowsOfB, typename A, typename B, typename C>
ISOCHRON_SCALAR void product_tile(const A& a, const B& b, const C& c, unsigned m, unsigned n, unsigned begin,
                                  unsigned end, unsigned tile_row, unsigned tile_column) {
  constexpr unsigned kTile = kMatmulTile;
  const unsigned row = tile_row * kTile, column = tile_column * kTile;
  __shared__ Sum left[kTile][kTile + 1];   // [row][p]
  __shared__ Sum right[kTile][kTile + 1];  // [p][column]
  const unsigned y = threadIdx.x / kTile, x = threadIdx.x % kTile;
  Sum sum = 0;
  for (unsigned p = begin; p < end; p += kTile) {
    // Neighbouring threads read neighbouring elements, whichever way the matrix lies.
    const unsigned a_row = kRowsOfA ? x : y, a_p = kRowsOfA ? y : x;
    const unsigned b_p = kRowsOfB ? x : y, b_column = kRowsOfB ? y : x;
    Sum from_a = 0, from_b = 0;
    if (row + a_row < m && p + a_p < end) from_a = a(row + a_row, p + a_p);
    if (p + b_p < end && column + b_column < n) from_b = b(p + b_p, column + b_column);
    left[a_row][a_p] = from_a;
    right[b_p][b_column] = from_b;
    __syncthreads();
    for (unsigned q = 0; q < kTile; ++q) sum = ScalarMath<Sum>::mul_add(left[y][q], right[q][x], sum);
    __syncthreads();
  }
  if (row + y < m && column + x < n) c(row + y, column + x, sum);
}

/// The same of matrices that lie by rows: a (m x k), b (k x n), either of them transposed.
template <typename Sum, bool kTransposeA, bool kTransposeB, typename A, typename B, typename C>
ISOCHRON_SCALAR void multiply_tile(const A* a, const B* b, C* c, unsigned m, unsigned n, unsigned k,
                                   unsigned tile_row, unsigned tile_column) {
  using Wide = unsigned long long;
  product_tile<Sum, kTransposeA, kTransposeB>(
      [&](unsigned row, unsigned p) -> Sum {
        return widen(a[kTransposeA ? Wide(p) * m + row : Wide(row) * k + p]);
      },
      [&](unsigned p, unsigned column) -> Sum {
        return widen(b[kTransposeB ? Wide(column) * k + p : Wide(p) * n + column]);
      },
      [&](unsigned row, unsigned column, Sum sum) { put(c + Wide(row) * n + column, sum); }, m, n, 0, k,
      tile_row, tile_column);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
