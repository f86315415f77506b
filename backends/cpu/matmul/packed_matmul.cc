// An f32 matrix multiply with packed operands, after Goto and van de Geijn ("Anatomy of High-Performance
// Matrix Multiplication", ACM TOMS 34, 2008). b is packed into panels, each as wide as two vectors. A tile of
// the result, a few rows of one panel, is summed up in registers. All tiles of the same rows follow each
// other, so these rows of a stay in L1 while the panels of b stream from L2. Rows of a are packed, too,
// unless they are contiguous and b has few columns: then packing costs more than it gains. A call has less to
// do before its first tile than a library's, which is noticeable up to some hundred rows.
#include "isochron/backends/cpu/matmul/packed_matmul.h"

#include "isochron/core/process/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/matmul/packed_matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "isochron/backends/cpu/common/tails-inl.h"
#include "isochron/backends/cpu/matmul/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// The size of a tile. Its sums, a row of b and an element of a must fit into 16 vector registers, or 32 with
// AVX-512.
constexpr int64_t kMaxRows = HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3 ? 8 : 6;
constexpr int kVectors = 2;
// Panels that are packed together, so that several adjacent cache lines are read from each row of b.
constexpr int64_t kPanelsTogether = 4;
// Up to this many columns of b, contiguous rows of a are read in place.
constexpr int64_t kFewColumns = 512;

int64_t panel_columns() { return kVectors * static_cast<int64_t>(hn::Lanes(Floats())); }

/// A tile's rows of a: in place, `row` elements apart, or packed, with the elements of a column side by side.
struct TileRows {
  const float* data;
  int64_t row;  // 0 if they are packed
};

/// Multiplies kRows rows of a by a panel of b. The product is added to c if `add`, and stored to c otherwise.
template <int kRows, bool kPacked>
HWY_INLINE void add_tile(int64_t depth, const TileRows& rows, const float* HWY_RESTRICT b, float* c,
                         int64_t c_row, bool add) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT a = rows.data;
  const int64_t a_row = kPacked ? 1 : rows.row;
  hn::Vec<Floats> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = add ? hn::LoadU(d, c + r * c_row + v * lanes) : hn::Zero(d);
  }
  for (int64_t p = 0; p < depth; ++p) {
    hn::Vec<Floats> row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, b + v * lanes);
    b += kVectors * lanes;
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r * a_row]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(x, row[v], sums[r][v]);
    }
    a += kPacked ? kRows : 1;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_row + v * lanes);
  }
}

/// Calls add_tile for `rows` rows, 1 to kRows.
template <int kRows>
HWY_NOINLINE void add_rows(int64_t rows, int64_t depth, const TileRows& a, const float* b, float* c,
                           int64_t c_row, bool add) {
  if (rows < kRows) {
    if constexpr (kRows > 1) add_rows<kRows - 1>(rows, depth, a, b, c, c_row, add);
  } else if (a.row == 0) {
    add_tile<kRows, true>(depth, a, b, c, c_row, add);
  } else {
    add_tile<kRows, false>(depth, a, b, c, c_row, add);
  }
}

/// add_rows for the last panel, if only `columns` of its columns exist in c.
void add_part(int64_t rows, int64_t depth, const TileRows& a, const float* b, float* c, int64_t c_row,
              int64_t columns, bool add) {
  constexpr int64_t kMaxColumns = kVectors * HWY_MAX_BYTES / sizeof(float);
  HWY_ALIGN float tile[kMaxRows * kMaxColumns] = {};
  for (int64_t r = 0; r < rows && add; ++r) std::copy_n(c + r * c_row, columns, tile + r * kMaxColumns);
  add_rows<kMaxRows>(rows, depth, a, b, tile, kMaxColumns, add);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(tile + r * kMaxColumns, columns, c + r * c_row);
}

/// The number of tiles of a block of rows, and the first row of tile t. Tiles differ by at most one row.
int64_t tiles_of(int64_t rows) { return (rows + kMaxRows - 1) / kMaxRows; }
int64_t tile_begin(int64_t rows, int64_t t) { return t * rows / tiles_of(rows); }

/// Transposes kSquare rows of `from`, which are `row` elements apart, into `to`, whose rows are `to_row`
/// apart. Stops before the last columns that don't fill a square; returns the number of columns done.
HWY_INLINE int64_t transpose_squares(int64_t columns, const float* from, int64_t row, float* to,
                                     int64_t to_row) {
  int64_t p = 0;
  for (; p + kSquare<float> <= columns; p += kSquare<float>) {
    const auto load = [&](int64_t i) HWY_ATTR { return hn::LoadU(SquareRow<float>(), from + i * row + p); };
    transpose_square(load, to + p * to_row, to_row);
  }
  return p;
}

/// Packs `rows` rows: to[p * to_row + r] = from[r * row + p * column].
void interleave(int64_t rows, int64_t depth, const float* from, int64_t row, int64_t column, float* to,
                int64_t to_row) {
  int64_t r = 0;
  for (; column == 1 && r + kSquare<float> <= rows; r += kSquare<float>) {
    const float* square = from + r * row;
    for (int64_t p = transpose_squares(depth, square, row, to + r, to_row); p < depth; ++p) {
      for (int64_t i = 0; i < kSquare<float>; ++i) to[p * to_row + r + i] = square[i * row + p];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t p = 0; p < depth; ++p) to[p * to_row + r] = from[r * row + p * column];
  }
}

/// Packs a block of rows of a, tile by tile. Within a tile, the elements of a column are side by side.
void pack_rows(int64_t rows, int64_t depth, const float* a, const PackedProduct& s, float* to) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t t = 0; t < tiles_of(rows); ++t) {
    const int64_t i = tile_begin(rows, t), count = tile_begin(rows, t + 1) - i;
    const float* from = a + i * s.a_row;
    float* tile = to + i * depth;
    int64_t p = 0;
    if (s.a_row == 1 && count <= lanes && kMasksMemory) {  // each store overwrites the end of the one before
      const auto present = hn::FirstN(d, static_cast<size_t>(count));
      for (; p * count + lanes <= depth * count; ++p)
        hn::StoreU(masked_load(present, d, from + p * s.a_column), d, tile + p * count);
    }
    interleave(count, depth - p, from + p * s.a_column, s.a_row, s.a_column, tile + p * count, count);
  }
}

/// Packs b, panel by panel, each in row-major order. The last panel is filled up with zeros.
void pack_columns(int64_t depth, const PackedProduct& s, float* to) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = panel_columns();
  const int64_t whole = s.b_column == 1 ? s.n / width * width : 0;
  for (int64_t first = 0; first < whole; first += kPanelsTogether * width) {
    const int64_t last = std::min(first + kPanelsTogether * width, whole);
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = first; j < last; j += width) {
        for (int v = 0; v < kVectors; ++v)
          hn::StoreU(hn::LoadU(d, s.b + p * s.b_row + j + v * lanes), d,
                     to + j * depth + p * width + v * lanes);
      }
    }
  }
  for (int64_t j = whole; j < s.n; j += width) {
    const int64_t columns = std::min(width, s.n - j);
    float* panel = to + j * depth;
    if (columns < width) std::fill_n(panel, depth * width, 0.0f);
    interleave(columns, depth, s.b + j * s.b_column, s.b_column, s.b_row, panel, width);
  }
}

/// Computes the rows [i0, i0 + rows) of c from packed columns of b.
void multiply_rows(const PackedProduct& s, int64_t i0, int64_t rows, int64_t depth, const float* b, bool add,
                   float* packed) {
  const bool direct = s.a_column == 1 && s.n <= kFewColumns;
  const float* a = s.a + i0 * s.a_row;
  if (!direct) pack_rows(rows, depth, a, s, packed);
  const int64_t width = panel_columns();
  for (int64_t t = 0; t < tiles_of(rows); ++t) {
    const int64_t i = tile_begin(rows, t), count = tile_begin(rows, t + 1) - i;
    const TileRows tile = direct ? TileRows{a + i * s.a_row, s.a_row} : TileRows{packed + i * depth, 0};
    for (int64_t j = 0; j < s.n; j += width) {
      float* c = s.c + (i0 + i) * s.c_row + j;
      if (s.n - j < width) {
        add_part(count, depth, tile, b + j * depth, c, s.c_row, s.n - j, add);
      } else {
        add_rows<kMaxRows>(count, depth, tile, b + j * depth, c, s.c_row, add);
      }
    }
  }
}

void multiply_packed(const PackedProduct& whole, float* workspace) {
  float* const rows = workspace;
  float* const columns = workspace + kPackedRows * kPackedDepth;
  for (int64_t j = 0; j < whole.n; j += kPackedColumns) {
    for (int64_t p = 0; p < whole.k; p += kPackedDepth) {
      const int64_t depth = std::min(kPackedDepth, whole.k - p);
      PackedProduct s = whole;
      s.n = std::min(kPackedColumns, whole.n - j);
      s.a += p * s.a_column;
      s.b += p * s.b_row + j * s.b_column;
      s.c += j;
      pack_columns(depth, s, columns);
      const int64_t most = kPackedRows * kPackedDepth / depth;
      for (int64_t i = 0; i < s.m; i += most)
        multiply_rows(s, i, std::min(most, s.m - i), depth, columns, p > 0, rows);
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

size_t packed_workspace_floats(int64_t n, int64_t k, int threads) {
  const int64_t width = packed_columns();
  const int64_t columns = std::min(kPackedColumns, (n + width - 1) / width * width);
  return static_cast<size_t>(threads * (kPackedRows * kPackedDepth + columns * std::min(kPackedDepth, k)));
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
    HWY_DYNAMIC_DISPATCH(multiply_packed)
    (part, workspace + thread * packed_workspace_floats(whole.n, whole.k, 1));
  });
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
