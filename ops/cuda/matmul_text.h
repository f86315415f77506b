// Matrix products of generated kernels; behind element_prelude() in their text. Plain and deterministic: what
// serves where no library does.
#ifndef ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_
#define ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// Tile (`tile_row`, `tile_column`) of c (m x n) = a (m x k) times b (k x n), a thread an element. Sums run
/// in `Sum`, in the order of k.
template <typename Sum, bool kTransposeA, bool kTransposeB, typename T>
ISOCHRON_SCALAR void multiply_tile(const T* a, const T* b, T* c, unsigned m, unsigned n, unsigned k,
                                   unsigned tile_row, unsigned tile_column) {
  using Wide = unsigned long long;
  constexpr unsigned kTile = kMatmulTile;
  const unsigned row = tile_row * kTile, column = tile_column * kTile;
  __shared__ Sum left[kTile][kTile + 1];   // [row][p]
  __shared__ Sum right[kTile][kTile + 1];  // [p][column]
  const unsigned y = threadIdx.x / kTile, x = threadIdx.x % kTile;
  Sum sum = 0;
  for (unsigned p = 0; p < k; p += kTile) {
    // Neighbouring threads read neighbouring elements, whichever way the matrix lies.
    const unsigned a_row = kTransposeA ? x : y, a_p = kTransposeA ? y : x;
    const unsigned b_p = kTransposeB ? x : y, b_column = kTransposeB ? y : x;
    Sum from_a = 0, from_b = 0;
    if (row + a_row < m && p + a_p < k)
      from_a = widen(a[kTransposeA ? Wide(p + a_p) * m + (row + a_row) : Wide(row + a_row) * k + (p + a_p)]);
    if (p + b_p < k && column + b_column < n)
      from_b = widen(
          b[kTransposeB ? Wide(column + b_column) * k + (p + b_p) : Wide(p + b_p) * n + (column + b_column)]);
    left[a_row][a_p] = from_a;
    right[b_p][b_column] = from_b;
    __syncthreads();
    for (unsigned q = 0; q < kTile; ++q) sum = ScalarMath<Sum>::mul_add(left[y][q], right[q][x], sum);
    __syncthreads();
  }
  if (row + y < m && column + x < n) c[Wide(row + y) * n + (column + x)] = Store<T>::of(sum);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
