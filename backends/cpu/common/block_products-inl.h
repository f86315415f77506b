// Products of small blocks, c = init + a b, in registers, and the layout of their operands. Included once per
// Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_BLOCK_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_BLOCK_PRODUCTS_INL_H_
#undef ISOCHRON_OPS_CPU_BLOCK_PRODUCTS_INL_H_
#else
#define ISOCHRON_OPS_CPU_BLOCK_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "isochron/backends/cpu/common/bf16_pairs-inl.h"
#include "isochron/backends/cpu/common/bf16_tiles.h"
#include "isochron/backends/cpu/common/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Vector = hn::Vec<hn::ScalableTag<T>>;

/// Copies `count` numbers. Rows are short, so the cost of calling memcpy for each of them would be
/// noticeable.
template <typename From, typename To>
HWY_INLINE void copy_row(const From* from, int64_t count, To* to) {
  const hn::ScalableTag<ComputeType<To>> d;
  if constexpr (std::is_same_v<From, bfloat16> && std::is_same_v<To, bfloat16>) {
    const hn::ScalableTag<uint16_t> bits;
    const uint16_t* in = reinterpret_cast<const uint16_t*>(from);
    uint16_t* out = reinterpret_cast<uint16_t*>(to);
    each_vector(bits, count, [&](int64_t i, size_t lanes) {
      store_lanes(bits, load_lanes(bits, in + i, lanes), out + i, lanes);
    });
  } else {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      store_numbers(d, load_numbers(d, from + i, hn::Lanes(d)), to + i, hn::Lanes(d));
    }
    for (; i < count; ++i) to[i] = To(static_cast<ComputeType<From>>(from[i]));
  }
}

/// The loads of product operands, and the loads and stores of a kernel's other tensors.
template <typename O>
struct Operand {
  static constexpr hn::ScalableTag<O> d{};
  static HWY_INLINE Vector<O> load(const O* from) { return hn::LoadU(d, from); }
  static HWY_INLINE Vector<O> broadcast(const O* from) { return hn::Set(d, *from); }
  static HWY_INLINE Vector<O> add_product(Vector<O> sum, Vector<O> a, Vector<O> b) {
    return hn::MulAdd(a, b, sum);
  }
  /// A vector of T as one of O.
  static HWY_INLINE Vector<O> round(Vector<O> v) { return v; }
  /// The first `lanes` numbers.
  template <typename E>
  static HWY_INLINE Vector<O> read(const E* from, size_t lanes) {
    return load_numbers(d, from, lanes);
  }
  template <typename E>
  static HWY_INLINE void write(Vector<O> v, E* to, size_t lanes) {
    store_numbers(d, v, to, lanes);
  }
  /// Stores vectors of kTogether rows in the interleaved layout that products read.
  static HWY_INLINE void write_together(const Vector<O> (&rows)[1], O* to) { hn::StoreU(rows[0], d, to); }
  /// Returns `rows` rows of `columns` numbers (a multiple of the lanes), with the depth along the rows, in
  /// the layout that products read. If `from` has another layout, they are packed into `to`, zero-padded up
  /// to `whole` rows.
  static const O* put_together(int64_t /*rows*/, int64_t /*whole*/, int64_t /*columns*/, const O* from,
                               O* /*to*/) {
    return from;
  }
};

#if ISOCHRON_BF16_PAIRS
template <>
struct Operand<bfloat16> {
  static constexpr hn::ScalableTag<float> d{};
  static constexpr hn::ScalableTag<uint32_t> pairs{};
  static constexpr hn::Rebind<uint16_t, hn::ScalableTag<float>> bits{};
  using Bits = hn::Vec<decltype(bits)>;

  static HWY_INLINE Vector<uint32_t> load(const bfloat16* from) {
    return hn::LoadU(pairs, reinterpret_cast<const uint32_t*>(from));
  }
  static HWY_INLINE Vector<uint32_t> broadcast(const bfloat16* from) {
    uint32_t pair;
    std::memcpy(&pair, from, sizeof(pair));
    return hn::Set(pairs, pair);
  }
  static HWY_INLINE Vector<float> add_product(Vector<float> sum, Vector<uint32_t> a, Vector<uint32_t> b) {
    return add_pair_products(sum, a, b);
  }
  static HWY_INLINE Bits round(Vector<float> v) { return bf16_bits(v); }
  static HWY_INLINE Vector<float> read(const float* from, size_t lanes) { return load_lanes(d, from, lanes); }
  static HWY_INLINE Vector<float> read(const bfloat16* from, size_t lanes) {
    const auto v = load_lanes(bits, reinterpret_cast<const uint16_t*>(from), lanes);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(pairs, v)));
  }
  static HWY_INLINE void write(Bits v, bfloat16* to, size_t lanes) {
    store_lanes(bits, v, reinterpret_cast<uint16_t*>(to), lanes);
  }
  static HWY_INLINE void write(Vector<float> v, bfloat16* to, size_t lanes) { write(round(v), to, lanes); }
  static HWY_INLINE void write_together(const Vector<float> (&rows)[2], bfloat16* to) {
    store_pairs(round(rows[0]), round(rows[1]), reinterpret_cast<uint32_t*>(to));
  }
  static HWY_INLINE Vector<uint32_t> pairs_of(Bits even, Bits odd) {
    return hn::Or(hn::PromoteTo(pairs, even), hn::ShiftLeft<16>(hn::PromoteTo(pairs, odd)));
  }
  static HWY_INLINE void store_pairs(Bits even, Bits odd, uint32_t* to) {
    hn::StoreU(pairs_of(even, odd), pairs, to);
  }
  static const bfloat16* put_together(int64_t rows, int64_t whole, int64_t columns, const bfloat16* from,
                                      bfloat16* to) {
    std::fill_n(to + rows * columns, (whole - rows) * columns, bfloat16());
    const uint16_t* even = reinterpret_cast<const uint16_t*>(from);
    uint32_t* out = reinterpret_cast<uint32_t*>(to);
    for (int64_t r = 0; r < rows; r += 2, even += 2 * columns, out += columns) {
      for (int64_t i = 0; i < columns; i += static_cast<int64_t>(hn::Lanes(d))) {
        store_pairs(hn::LoadU(bits, even + i), hn::LoadU(bits, even + columns + i), out + i);
      }
    }
    return to;
  }
};
#endif

#if ISOCHRON_BF16_PAIRS
/// Transposes 16 vectors of words: vector i receives word i of each.
HWY_INLINE void transpose_vectors(Vector<uint32_t> (&v)[16]) {
  const hn::ScalableTag<uint32_t> words;
  const hn::ScalableTag<uint64_t> wide;
  const auto interleave_wide = [&](Vector<uint32_t> a, Vector<uint32_t> b, bool upper) HWY_ATTR {
    const auto x = hn::BitCast(wide, a), y = hn::BitCast(wide, b);
    return hn::BitCast(words, upper ? hn::InterleaveUpper(wide, x, y) : hn::InterleaveLower(wide, x, y));
  };
  for (int g = 0; g < 16; g += 4) {  // 4x4 blocks: transpose their parts of 128 bits
    const auto a = hn::InterleaveLower(words, v[g], v[g + 1]), b = hn::InterleaveUpper(words, v[g], v[g + 1]);
    const auto c = hn::InterleaveLower(words, v[g + 2], v[g + 3]);
    const auto d = hn::InterleaveUpper(words, v[g + 2], v[g + 3]);
    v[g] = interleave_wide(a, c, false);
    v[g + 1] = interleave_wide(a, c, true);
    v[g + 2] = interleave_wide(b, d, false);
    v[g + 3] = interleave_wide(b, d, true);
  }
  for (int i = 0; i < 4; ++i) {  // then exchange the 4x4 blocks
    const __m512i lower = _mm512_shuffle_i32x4(v[i].raw, v[i + 4].raw, 0x44);
    const __m512i upper = _mm512_shuffle_i32x4(v[i].raw, v[i + 4].raw, 0xEE);
    const __m512i next_lower = _mm512_shuffle_i32x4(v[i + 8].raw, v[i + 12].raw, 0x44);
    const __m512i next_upper = _mm512_shuffle_i32x4(v[i + 8].raw, v[i + 12].raw, 0xEE);
    v[i].raw = _mm512_shuffle_i32x4(lower, next_lower, 0x88);
    v[i + 4].raw = _mm512_shuffle_i32x4(lower, next_lower, 0xDD);
    v[i + 8].raw = _mm512_shuffle_i32x4(upper, next_upper, 0x88);
    v[i + 12].raw = _mm512_shuffle_i32x4(upper, next_upper, 0xDD);
  }
}

/// Transposes `rows` rows of `columns` numbers into `to` (columns, whole), filling up with zeros. `rows` is
/// even, `columns` a multiple of 16 and `whole` of 32.
inline void transpose_numbers(int64_t rows, int64_t whole, int64_t columns, const bfloat16* from,
                              bfloat16* to) {
  using Pairs = Operand<bfloat16>;
  const auto load = [&](int64_t row, int64_t column) HWY_ATTR {
    return hn::LoadU(Pairs::bits, reinterpret_cast<const uint16_t*>(from + row * columns + column));
  };
  for (int64_t column = 0; column < columns; column += 16) {
    for (int64_t r = 0; r < whole; r += 32) {
      Vector<uint32_t> square[16];
      for (int64_t i = 0; i < 16; ++i) {
        const int64_t row = r + 2 * i;
        square[i] =
            row < rows ? Pairs::pairs_of(load(row, column), load(row + 1, column)) : hn::Zero(Pairs::pairs);
      }
      transpose_vectors(square);
      for (int64_t i = 0; i < 16; ++i) {
        hn::StoreU(square[i], Pairs::pairs, reinterpret_cast<uint32_t*>(to + (column + i) * whole + r));
      }
    }
  }
}

/// Transposes rows of pairs into `to`, (columns / 2, rows) pairs. `rows` is a multiple of 16, `columns` of
/// 32.
inline void transpose_pairs(int64_t rows, int64_t columns, const bfloat16* from, bfloat16* to) {
  const hn::ScalableTag<uint32_t> words;
  const uint32_t* in = reinterpret_cast<const uint32_t*>(from);
  uint32_t* out = reinterpret_cast<uint32_t*>(to);
  for (int64_t column = 0; column < columns / 2; column += 16) {
    for (int64_t r = 0; r < rows; r += 16) {
      Vector<uint32_t> square[16];
      for (int64_t i = 0; i < 16; ++i) square[i] = hn::LoadU(words, in + (r + i) * columns / 2 + column);
      transpose_vectors(square);
      for (int64_t i = 0; i < 16; ++i) hn::StoreU(square[i], words, out + (column + i) * rows + r);
    }
  }
}
#endif

/// Computes rows [first, first + kRows) in kVectors vectors of columns, from `column` on.
template <typename O, int kRows, int kVectors, typename T = ComputeType<O>>
HWY_INLINE void multiply_tile(const BlockProduct<O>& p, int64_t first, int64_t column) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t b_vector = lanes * kTogether<O>;
  const T* init = p.init + first * p.init_row + column;
  T* c = p.c + first * p.c_row + column;
  Vector<T> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::LoadU(d, init + r * p.init_row + v * lanes);
  }
  const O* b = p.b + column * kTogether<O>;
  const Left<O> left = p.a;
  for (int64_t o = 0; o < left.outer_count; ++o) {
    const O* a = left.data + first * left.row + o * left.outer;
    for (int64_t k = 0; k < left.inner_count; ++k, a += left.inner, b += p.b_row) {
      decltype(Operand<O>::load(b)) row[kVectors];
      for (int v = 0; v < kVectors; ++v) row[v] = Operand<O>::load(b + v * b_vector);
      for (int r = 0; r < kRows; ++r) {
        const auto factor = Operand<O>::broadcast(a + r * left.row);
        for (int v = 0; v < kVectors; ++v) sums[r][v] = Operand<O>::add_product(sums[r][v], factor, row[v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + r * p.c_row + v * lanes);
  }
}

/// Computes all rows in kVectors vectors of columns, in tiles of nearly equal height that fill the registers.
template <typename O, int kVectors>
void multiply_columns(const BlockProduct<O>& p, int64_t column) {
  constexpr int64_t kMax = HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3 ? 6 : 3;
  const int64_t tiles = (p.rows + kMax - 1) / kMax;
  const int64_t least = p.rows / std::max<int64_t>(tiles, 1);
  for (int64_t first = 0, t = 0; t < tiles; ++t) {
    const int64_t height = least + (t < p.rows - least * tiles ? 1 : 0);
    switch (height) {
      case 6:
        multiply_tile<O, 6, kVectors>(p, first, column);
        break;
      case 5:
        multiply_tile<O, 5, kVectors>(p, first, column);
        break;
      case 4:
        multiply_tile<O, 4, kVectors>(p, first, column);
        break;
      case 3:
        multiply_tile<O, 3, kVectors>(p, first, column);
        break;
      case 2:
        multiply_tile<O, 2, kVectors>(p, first, column);
        break;
      default:
        multiply_tile<O, 1, kVectors>(p, first, column);
        break;
    }
    first += height;
  }
}

/// The number of column vectors to compute at once if `left` of them remain: 4, 2 or 1.
inline int64_t panel_vectors(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

template <typename O>
void multiply_block(const BlockProduct<O>& p) {
  if constexpr (kTogether < O >> 1) {
    if (p.a.tiles) {
      multiply_tiles(p);
      return;
    }
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<ComputeType<O>>()));
  for (int64_t column = 0; column < p.columns;) {
    const int64_t width = panel_vectors((p.columns - column) / lanes);
    const auto multiply = width == 4   ? multiply_columns<O, 4>
                          : width == 2 ? multiply_columns<O, 2>
                                       : multiply_columns<O, 1>;
    multiply(p, column);
    column += width * lanes;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
