// A matrix multiply that packs its operands (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", ACM TOMS 34, 2008): columns of b in panels that stay in L1, rows of a in blocks that stay
// in L2. Compared with a library's, it has little to do before the first product, which pays for some hundred
// rows.
#include "isochron/backends/cpu/matmul/packed_matmul.h"

#include "isochron/core/process/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/matmul/packed_matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "isochron/backends/cpu/common/tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// Of a tile, whose sums stay in registers: 32 of them on AVX-512, 16 elsewhere.
constexpr int64_t kMostRows = HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3 ? 8 : 6;
constexpr int kVectors = 2;

int64_t panel_columns() { return kVectors * static_cast<int64_t>(hn::Lanes(Floats())); }

/// Adds the product of kRows packed rows of a and a packed panel of b to c, or sets c to it. `columns`: of
/// the panel, that exist.
template <int kRows>
HWY_INLINE void add_tile(int64_t depth, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* c,
                         int64_t c_row, int64_t columns, bool add) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto present = [&](int v) {
    return static_cast<size_t>(std::clamp<int64_t>(columns - v * lanes, 0, lanes));
  };
  hn::Vec<Floats> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = add ? load_lanes(d, c + r * c_row + v * lanes, present(v)) : hn::Zero(d);
  }
  for (int64_t p = 0; p < depth; ++p) {
    hn::Vec<Floats> row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, b + v * lanes);
    b += kVectors * lanes;
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(x, row[v], sums[r][v]);
    }
    a += kRows;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store_lanes(d, sums[r][v], c + r * c_row + v * lanes, present(v));
  }
}

/// The same for 1 to kRows rows.
template <int kRows>
HWY_NOINLINE void add_rows(int64_t rows, int64_t depth, const float* a, const float* b, float* c,
                           int64_t c_row, int64_t columns, bool add) {
  if (rows == kRows) {
    add_tile<kRows>(depth, a, b, c, c_row, columns, add);
  } else if constexpr (kRows > 1) {
    add_rows<kRows - 1>(rows, depth, a, b, c, c_row, columns, add);
  }
}

/// Calls body(first row, rows) for each tile of a block; the tiles' rows differ by at most one.
template <class Body>
HWY_INLINE void each_tile(int64_t rows, Body body) {
  const int64_t tiles = (rows + kMostRows - 1) / kMostRows;
  for (int64_t tile = 0, i = 0; tile < tiles; ++tile) {
    const int64_t next = (tile + 1) * rows / tiles;
    body(i, next - i);
    i = next;
  }
}

/// Packs a tile's rows: those of one column follow each other.
void pack_rows(int64_t rows, int64_t depth, const float* a, const PackedProduct& s, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = a + r * s.a_row;
    for (int64_t p = 0; p < depth; ++p) to[p * rows + r] = from[p * s.a_column];
  }
}

/// Packs the columns of a panel row by row, with zeros for those that don't exist.
void pack_columns(int64_t columns, int64_t depth, const float* b, const PackedProduct& s, float* to) {
  const Floats d;
  const int64_t all = panel_columns();
  if (s.b_column == 1 && columns == all) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t p = 0; p < depth; ++p) {
      for (int v = 0; v < kVectors; ++v)
        hn::StoreU(hn::LoadU(d, b + p * s.b_row + v * lanes), d, to + p * all + v * lanes);
    }
    return;
  }
  for (int64_t j = 0; j < all; ++j) {
    const float* from = b + j * s.b_column;
    for (int64_t p = 0; p < depth; ++p) to[p * all + j] = j < columns ? from[p * s.b_row] : 0;
  }
}

void multiply_packed(const PackedProduct& s, float* workspace) {
  float* const panel = workspace + kPackedRows * kPackedDepth;
  const int64_t width = panel_columns();
  for (int64_t i0 = 0; i0 < s.m; i0 += kPackedRows) {
    const int64_t rows = std::min(kPackedRows, s.m - i0);
    for (int64_t p0 = 0; p0 < s.k; p0 += kPackedDepth) {
      const int64_t depth = std::min(kPackedDepth, s.k - p0);
      each_tile(rows, [&](int64_t i, int64_t count) {
        pack_rows(count, depth, s.a + (i0 + i) * s.a_row + p0 * s.a_column, s, workspace + i * depth);
      });
      for (int64_t j = 0; j < s.n; j += width) {
        const int64_t columns = std::min(width, s.n - j);
        pack_columns(columns, depth, s.b + p0 * s.b_row + j * s.b_column, s, panel);
        each_tile(rows, [&](int64_t i, int64_t count) {
          add_rows<kMostRows>(count, depth, workspace + i * depth, panel, s.c + (i0 + i) * s.c_row + j,
                              s.c_row, columns, p0 > 0);
        });
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(multiply_packed);
HWY_EXPORT(panel_columns);

int64_t packed_columns() { return HWY_DYNAMIC_DISPATCH(panel_columns)(); }

size_t packed_workspace_floats(int threads) {
  return static_cast<size_t>(threads * (kPackedRows + packed_columns()) * kPackedDepth);
}

void packed_matmul(const PackedProduct& whole, int threads, float* workspace) {
  const int64_t columns = packed_columns(), panels = (whole.n + columns - 1) / columns;
  each_thread(threads, [&](int64_t thread) {
    PackedProduct part = whole;
    if (whole.m > whole.n) {
      const int64_t begin = thread * whole.m / threads;
      part.m = (thread + 1) * whole.m / threads - begin;
      part.a += begin * whole.a_row;
      part.c += begin * whole.c_row;
    } else {
      const int64_t begin = thread * panels / threads * columns;
      part.n = std::min(whole.n, (thread + 1) * panels / threads * columns) - begin;
      part.b += begin * whole.b_column;
      part.c += begin;
    }
    HWY_DYNAMIC_DISPATCH(multiply_packed)(part, workspace + thread * packed_workspace_floats(1));
  });
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
