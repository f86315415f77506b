// Tiled matrix products of generated kernels. Comes after element_prelude() in the compiled source.
// Deterministic: the order of a sum depends only on the tiles and parts that product_tiles.h chooses.
#ifndef ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_
#define ISOCHRON_OPS_CUDA_MATMUL_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// A block's tile of a product has kTileRows x kTileColumns elements, of which a thread computes a square of
/// kTileEach x kTileEach in registers.
template <unsigned kTileRows, unsigned kTileColumns, unsigned kTileEach>
struct Tiling {
  static constexpr bool kOnTensorCores = false;
  static constexpr unsigned kRows = kTileRows, kColumns = kTileColumns, kEach = kTileEach;
  static constexpr unsigned kAcross = kColumns / kEach, kThreads = kRows / kEach * kAcross;
};

/// One that tensor cores multiply, whose factors are of `TileFormat`. A warp computes kWarpRows x
/// kTensorColumns of it. What is summed up goes by words of 32 bits.
template <typename TileFormat, unsigned kTileRows, unsigned kTileColumns>
struct TensorTiling {
  using Format = TileFormat;
  static constexpr bool kOnTensorCores = true;
  static constexpr unsigned kRows = kTileRows, kColumns = kTileColumns;
  static constexpr unsigned kWarpRows = kRows % 32 == 0 ? 32 : 16, kAcross = kColumns / kTensorColumns;
  static constexpr unsigned kThreads = 32 * (kRows / kWarpRows) * kAcross;
  static constexpr unsigned kDepth = kTensorWords * Format::kEach;
};

// What tensor cores multiply, from compute capability 8.0 on: c (16 x 8) += a (16 x 8 words) times b (8 words
// x 8), which a warp holds together (PTX ISA, "Matrix fragments for mma.m16n8k8" and "m16n8k16"): lane l has
// rows l / 4 and l / 4 + 8 of c, each in columns l % 4 * 2 and the next; of a the same rows and of b column
// l / 4, each by words l % 4 and l % 4 + 4. A word is of kEach neighbors of what is summed up.
#ifdef __CUDACC_RTC__
#define ISOCHRON_MULTIPLY(shape, type)                                                  \
  ISOCHRON_SCALAR void multiply(float* c, const unsigned* a, const unsigned* b) {       \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));   \
  }
#else
#define ISOCHRON_MULTIPLY(shape, type)                                            \
  ISOCHRON_SCALAR void multiply(float* c, const unsigned* a, const unsigned* b) { \
    host::multiply_by_warp(c, a, b, kEach, element);                              \
  }
#endif

/// f32 rounded to 10 bits of fraction.
struct Tf32 {
  static constexpr unsigned kEach = 1;
  ISOCHRON_SCALAR unsigned word(const float* x) {
#ifdef __CUDACC_RTC__
    unsigned result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x[0]));
    return result;
#else
    const unsigned bits = bits_of(x[0]);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
#endif
  }
  ISOCHRON_SCALAR float element(unsigned word, unsigned) { return float_of(word); }
  ISOCHRON_MULTIPLY("m16n8k8", "tf32")
};
/// Numbers of 16 bits, widened.
struct PairOfFloat16 {
  static constexpr unsigned kEach = 2;
  ISOCHRON_SCALAR unsigned word(const float* x) {
    return to_float16(x[0]).bits | static_cast<unsigned>(to_float16(x[1]).bits) << 16;
  }
  ISOCHRON_SCALAR float element(unsigned word, unsigned which) {
    return widen(float16{static_cast<unsigned short>(word >> 16 * which)});
  }
  ISOCHRON_MULTIPLY("m16n8k16", "f16")
};
struct PairOfBfloat16 {
  static constexpr unsigned kEach = 2;
  ISOCHRON_SCALAR unsigned word(const float* x) {
    return bits_of(x[0]) >> 16 | (bits_of(x[1]) & 0xffff0000u);
  }
  ISOCHRON_SCALAR float element(unsigned word, unsigned which) {
    return widen(bfloat16{static_cast<unsigned short>(word >> 16 * which)});
  }
  ISOCHRON_MULTIPLY("m16n8k16", "bf16")
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

/// A factor's part that a block multiplies at a time, in shared memory: kExtent rows of a, or columns of b.
/// Threads that read a fragment, and neighbors that write, are at different banks.
template <unsigned kExtent>
struct SharedWords {
  static constexpr unsigned kStride = (kExtent + 29) / 32 * 32 + 8;
  unsigned words[kTensorWords * kStride];

  ISOCHRON_INLINE unsigned& at(unsigned word, unsigned i) { return words[word * kStride + word / 4 * 2 + i]; }
};

/// The words of a factor that a thread brings: from memory to registers, then from there to shared memory.
template <typename Tiles, unsigned kExtent, bool kNeighbors>
struct BroughtWords {
  using Format = typename Tiles::Format;
  static constexpr unsigned kWords = kExtent * kTensorWords;
  static constexpr unsigned kLoads = (kWords + Tiles::kThreads - 1) / Tiles::kThreads;
  unsigned held[kLoads];

  /// Neighboring threads read neighboring elements: of neighboring rows of a or columns of b where
  /// kNeighbors.
  ISOCHRON_SCALAR unsigned extent_of(unsigned i) { return kNeighbors ? i % kExtent : i / kTensorWords; }
  ISOCHRON_SCALAR unsigned word_of(unsigned i) { return kNeighbors ? i / kExtent : i % kTensorWords; }

  /// From p on: `element(at, p)` for at < extent and p < end, else 0.
  template <typename Element>
  ISOCHRON_INLINE void load(const Element& element, unsigned first, unsigned extent, unsigned p,
                            unsigned end) {
    ISOCHRON_UNROLL
    for (unsigned each = 0; each < kLoads; ++each) {
      const unsigned i = threadIdx.x + each * Tiles::kThreads, at = first + extent_of(i);
      const unsigned from = p + word_of(i) * Format::kEach;
      float values[Format::kEach];
      ISOCHRON_UNROLL
      for (unsigned e = 0; e < Format::kEach; ++e)
        values[e] = i < kWords && at < extent && from + e < end ? element(at, from + e) : 0.0f;
      held[each] = Format::word(values);
    }
  }
  ISOCHRON_INLINE void store(SharedWords<kExtent>& to) const {
    ISOCHRON_UNROLL
    for (unsigned each = 0; each < kLoads; ++each) {
      const unsigned i = threadIdx.x + each * Tiles::kThreads;
      if (i < kWords) to.at(word_of(i), extent_of(i)) = held[each];
    }
  }
};

/// As product_tile, whose sums run in f32.
template <typename Tiles, bool kRowsOfA, bool kRowsOfB, typename A, typename B, typename C>
ISOCHRON_SCALAR void tensor_core_tile(const A& a, const B& b, const C& c, unsigned m, unsigned n,
                                      const Tile& tile) {
  using Format = typename Tiles::Format;
  constexpr unsigned kRows = Tiles::kRows, kColumns = Tiles::kColumns, kDepth = Tiles::kDepth;
  constexpr unsigned kDown = Tiles::kWarpRows / 16, kAcross = kTensorColumns / 8;  // products of a warp
  // In turns: one is read while the other is filled.
  __shared__ SharedWords<kRows> left[2];
  __shared__ SharedWords<kColumns> right[2];
  const unsigned first_row = tile.row * kRows, first_column = tile.column * kColumns;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned row = warp / Tiles::kAcross * Tiles::kWarpRows + lane / 4;
  const unsigned column = warp % Tiles::kAcross * kTensorColumns, word = lane % 4;

  BroughtWords<Tiles, kRows, kRowsOfA> of_a;
  BroughtWords<Tiles, kColumns, !kRowsOfB> of_b;
  const auto load = [&](unsigned p) {
    of_a.load(a, first_row, m, p, tile.end);
    of_b.load([&](unsigned at, unsigned q) { return b(q, at); }, first_column, n, p, tile.end);
  };
  float sums[kDown][kAcross][4] = {};
  load(tile.begin);
  unsigned turn = 0;
  for (unsigned p = tile.begin; p < tile.end; p += kDepth, turn ^= 1) {
    of_a.store(left[turn]);
    of_b.store(right[turn]);
    __syncthreads();
    if (p + kDepth < tile.end) load(p + kDepth);
    ISOCHRON_UNROLL
    for (unsigned q = 0; q < kTensorWords; q += 8) {
      unsigned columns[kAcross][2];
      ISOCHRON_UNROLL
      for (unsigned s = 0; s < kAcross; ++s) {
        ISOCHRON_UNROLL
        for (unsigned half = 0; half < 2; ++half)
          columns[s][half] = right[turn].at(q + word + half * 4, column + s * 8 + lane / 4);
      }
      ISOCHRON_UNROLL
      for (unsigned r = 0; r < kDown; ++r) {
        unsigned rows[4];
        ISOCHRON_UNROLL
        for (unsigned part = 0; part < 4; ++part)
          rows[part] = left[turn].at(q + word + part / 2 * 4, row + r * 16 + part % 2 * 8);
        ISOCHRON_UNROLL
        for (unsigned s = 0; s < kAcross; ++s) Format::multiply(sums[r][s], rows, columns[s]);
      }
    }
  }
  ISOCHRON_UNROLL
  for (unsigned r = 0; r < kDown; ++r) {
    ISOCHRON_UNROLL
    for (unsigned s = 0; s < kAcross; ++s) {
      ISOCHRON_UNROLL
      for (unsigned part = 0; part < 4; ++part) {
        const unsigned to_row = first_row + row + r * 16 + part / 2 * 8;
        const unsigned to_column = first_column + column + s * 8 + word * 2 + part % 2;
        if (to_row < m && to_column < n) c(to_row, to_column, sums[r][s][part]);
      }
    }
  }
}

/// As product_tile, by threads alone.
template <typename Sum, typename Tiles, bool kRowsOfA, bool kRowsOfB, typename A, typename B, typename C>
ISOCHRON_SCALAR void thread_tile(const A& a, const B& b, const C& c, unsigned m, unsigned n,
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

  // Neighboring threads read neighboring elements, whichever way the matrix lies.
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

/// Tile `tile` of c (m x n) = a times b: `a(row, p)` and `b(p, column)` give elements for p in [tile.begin,
/// tile.end), `c(row, column, sum)` takes them. Sums run in `Sum`, in the order of p, on tensor cores by some
/// at a time. Of a, neighbors in memory have neighboring rows where kRowsOfA, else neighboring p; of b
/// neighboring p where kRowsOfB, else neighboring columns.
template <typename Sum, typename Tiles, bool kRowsOfA, bool kRowsOfB, typename A, typename B, typename C>
ISOCHRON_SCALAR void product_tile(const A& a, const B& b, const C& c, unsigned m, unsigned n,
                                  const Tile& tile) {
  if constexpr (Tiles::kOnTensorCores) {
    tensor_core_tile<Tiles, kRowsOfA, kRowsOfB>(a, b, c, m, n, tile);
  } else {
    thread_tile<Sum, Tiles, kRowsOfA, kRowsOfB>(a, b, c, m, n, tile);
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
