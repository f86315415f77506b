// Matrix products of generated kernels, in tiles; behind element_prelude() in their text. Deterministic: the
// order of a sum depends on the tiles and parts that product_tiles.h has chosen, and on nothing else.
#ifndef ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_
#define ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// A block's tile of a product has kTileRows x kTileColumns elements, of which a thread computes a square of
/// kTileEach x kTileEach in registers.
template <unsigned kTileRows, unsigned kTileColumns, unsigned kTileEach>
struct Tiling {
  static constexpr unsigned kRows = kTileRows, kColumns = kTileColumns, kEach = kTileEach;
  static constexpr unsigned kAcross = kColumns / kEach, kThreads = kRows / kEach * kAcross;
};

/// A tile of a product: of the matrix that is number `product` of all, and the part of the sum that goes from
/// `begin` to `end`.
struct Tile {
  unsigned row, column, product, begin, end;
};
/// That of a block: `across` tiles are in a row, `tiles` in a product, `all` in all products; `depth` of the
/// `k` that are summed up are in a part.
ISOCHRON_SCALAR Tile tile_of(unsigned block, unsigned across, unsigned tiles, unsigned all, unsigned depth,
                             unsigned k) {
  const unsigned tile = block % tiles, begin = block / all * depth;
  const unsigned end = k - begin < depth ? k : begin + depth;
  return {tile / across, tile % across, block % all / tiles, begin, end};
}

/// Tile `tile` of c (m x n) = a times b: `a(row, p)` and `b(p, column)` give elements for p in [tile.begin,
/// tile.end), `c(row, column, sum)` takes them. Sums run in `Sum`, in the order of p. Of a, neighbours in
/// memory have neighbouring rows where kRowsOfA, else neighbouring p; of b neighbouring p where kRowsOfB,
/// else neighbouring columns.
template <typename Sum, typename Tiles, bool kRowsOfA, bool kRowsOfB, typename A, typename B, typename C>
ISOCHRON_SCALAR void product_tile(const A& a, const B& b, const C& c, unsigned m, unsigned n,
                                  const Tile& tile) {
  constexpr unsigned kRows = Tiles::kRows, kColumns = Tiles::kColumns, kEach = Tiles::kEach;
  constexpr unsigned kDepth = kTileDepth, kThreads = Tiles::kThreads;
  constexpr unsigned kLoadsOfA = (kRows * kDepth + kThreads - 1) / kThreads;
  constexpr unsigned kLoadsOfB = (kColumns * kDepth + kThreads - 1) / kThreads;
  // In turns: one is read while the other is filled. One pack more, so that rows begin at other banks.
  __shared__ Pack<Sum, kEach> left[2][kDepth][kRows / kEach + 1];
  __shared__ Pack<Sum, kEach> right[2][kDepth][kColumns / kEach + 1];
  const unsigned first_row = tile.row * kRows, first_column = tile.column * kColumns;
  const unsigned y = threadIdx.x / Tiles::kAcross, x = threadIdx.x % Tiles::kAcross;

  // Neighbouring threads read neighbouring elements, whichever way the matrix lies.
  const auto row_of = [](unsigned i) { return kRowsOfA ? i % kRows : i / kDepth; };
  const auto row_p_of = [](unsigned i) { return kRowsOfA ? i / kRows : i % kDepth; };
  const auto column_of = [](unsigned i) { return kRowsOfB ? i / kDepth : i % kColumns; };
  const auto column_p_of = [](unsigned i) { return kRowsOfB ? i % kDepth : i / kColumns; };

  Sum of_a[kLoadsOfA], of_b[kLoadsOfB];
  const auto load = [&](unsigned p) {
    ISOCHRON_UNROLL
    for (unsigned each = 0; each < kLoadsOfA; ++each) {
      const unsigned i = threadIdx.x + each * kThreads, row = first_row + row_of(i), at = p + row_p_of(i);
      of_a[each] = i < kRows * kDepth && row < m && at < tile.end ? Sum(a(row, at)) : Sum(0);
    }
    ISOCHRON_UNROLL
    for (unsigned each = 0; each < kLoadsOfB; ++each) {
      const unsigned i = threadIdx.x + each * kThreads, at = p + column_p_of(i);
      const unsigned column = first_column + column_of(i);
      of_b[each] = i < kColumns * kDepth && column < n && at < tile.end ? Sum(b(at, column)) : Sum(0);
    }
  };
  const auto store = [&](unsigned turn) {
    ISOCHRON_UNROLL
    for (unsigned each = 0; each < kLoadsOfA; ++each) {
      const unsigned i = threadIdx.x + each * kThreads, row = row_of(i);
      if (i < kRows * kDepth) left[turn][row_p_of(i)][row / kEach].of[row % kEach] = of_a[each];
    }
    ISOCHRON_UNROLL
    for (unsigned each = 0; each < kLoadsOfB; ++each) {
      const unsigned i = threadIdx.x + each * kThreads, column = column_of(i);
      if (i < kColumns * kDepth) right[turn][column_p_of(i)][column / kEach].of[column % kEach] = of_b[each];
    }
  };

  Sum sums[kEach][kEach] = {};
  load(tile.begin);
  unsigned turn = 0;
  for (unsigned p = tile.begin; p < tile.end; p += kDepth, turn ^= 1) {
    store(turn);
    __syncthreads();
    if (p + kDepth < tile.end) load(p + kDepth);
    ISOCHRON_UNROLL
    for (unsigned q = 0; q < kDepth; ++q) {
      const Pack<Sum, kEach> rows = left[turn][q][y], columns = right[turn][q][x];
      ISOCHRON_UNROLL
      for (unsigned r = 0; r < kEach; ++r) {
        ISOCHRON_UNROLL
        for (unsigned s = 0; s < kEach; ++s)
          sums[r][s] = ScalarMath<Sum>::mul_add(rows.of[r], columns.of[s], sums[r][s]);
      }
    }
  }
  ISOCHRON_UNROLL
  for (unsigned r = 0; r < kEach; ++r) {
    ISOCHRON_UNROLL
    for (unsigned s = 0; s < kEach; ++s) {
      const unsigned row = first_row + y * kEach + r, column = first_column + x * kEach + s;
      if (row < m && column < n) c(row, column, sums[r][s]);
    }
  }
}

/// The same of matrices that lie by rows: a (m x k), b (k x n), either of them transposed; `c(i, sum)` takes
/// element i of the result.
template <typename Sum, typename Tiles, bool kTransposeA, bool kTransposeB, typename A, typename B,
          typename C>
ISOCHRON_SCALAR void multiply_tile(const A* a, const B* b, const C& c, unsigned m, unsigned n, unsigned k,
                                   const Tile& tile) {
  using Wide = unsigned long long;
  product_tile<Sum, Tiles, kTransposeA, kTransposeB>(
      [&](unsigned row, unsigned p) { return widen(a[kTransposeA ? Wide(p) * m + row : Wide(row) * k + p]); },
      [&](unsigned p, unsigned column) {
        return widen(b[kTransposeB ? Wide(column) * k + p : Wide(p) * n + column]);
      },
      [&](unsigned row, unsigned column, Sum sum) { c(Wide(row) * n + column, sum); }, m, n, tile);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
