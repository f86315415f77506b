// The small matrix multiply: rows of the result in vector registers, the first operand broadcast from memory.
#include "isochron/ops/cpu/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/small_matmul.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "isochron/ops/cpu/tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A block of kRows x (kVectors * lanes) of c; the last vector holds `tail` columns (0: all).
template <typename T, int kRows, int kVectors, bool kTail>
HWY_INLINE void block(int64_t k, const T* a, int64_t a_row, int64_t a_column, const T* b, int64_t b_row, T* c,
                      int64_t c_row, size_t tail) {
  using D = hn::ScalableTag<T>;
  const D d;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::FirstN(d, kTail ? tail : lanes);
  hn::Vec<D> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t p = 0; p < k; ++p) {
    hn::Vec<D> row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const T* from = b + p * b_row + static_cast<int64_t>(static_cast<size_t>(v) * lanes);
      row[v] = kTail && v == kVectors - 1 ? masked_load(mask, d, from) : hn::LoadU(d, from);
    }
    const T* column = a + p * a_column;
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, column[r * a_row]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(x, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      T* to = c + r * c_row + static_cast<int64_t>(static_cast<size_t>(v) * lanes);
      if (kTail && v == kVectors - 1) {
        masked_store(sums[r][v], mask, d, to);
      } else {
        hn::StoreU(sums[r][v], d, to);
      }
    }
  }
}

/// One row: four chains over k, since one would wait for each sum.
template <typename T, bool kTail>
HWY_INLINE void single_row(int64_t k, const T* a, int64_t a_column, const T* b, int64_t b_row, T* c,
                           size_t tail) {
  using D = hn::ScalableTag<T>;
  const D d;
  const auto mask = hn::FirstN(d, kTail ? tail : hn::Lanes(d));
  const auto load = [&](int64_t p) HWY_ATTR {
    return kTail ? masked_load(mask, d, b + p * b_row) : hn::LoadU(d, b + p * b_row);
  };
  auto s0 = hn::Zero(d);
  auto s1 = s0;
  auto s2 = s0;
  auto s3 = s0;
  int64_t p = 0;
  for (; p + 4 <= k; p += 4) {
    s0 = hn::MulAdd(hn::Set(d, a[p * a_column]), load(p), s0);
    s1 = hn::MulAdd(hn::Set(d, a[(p + 1) * a_column]), load(p + 1), s1);
    s2 = hn::MulAdd(hn::Set(d, a[(p + 2) * a_column]), load(p + 2), s2);
    s3 = hn::MulAdd(hn::Set(d, a[(p + 3) * a_column]), load(p + 3), s3);
  }
  for (; p < k; ++p) s0 = hn::MulAdd(hn::Set(d, a[p * a_column]), load(p), s0);
  const auto total = (s0 + s1) + (s2 + s3);
  if (kTail) {
    masked_store(total, mask, d, c);
  } else {
    hn::StoreU(total, d, c);
  }
}

/// All rows of a stripe of columns, in blocks of as many rows as registers hold.
template <typename T, int kVectors, bool kTail>
HWY_INLINE void stripe(int64_t m, int64_t k, const T* a, int64_t a_row, int64_t a_column, const T* b,
                       int64_t b_row, T* c, int64_t c_row, size_t tail) {
  // 32 registers on AVX-512, 16 elsewhere.
  constexpr int kRegisters = HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3 ? 32 : 16;
  constexpr int kMost = kVectors == 1 ? (kRegisters == 32 ? 16 : 8) : (kRegisters == 32 ? 8 : 4);
  int64_t i = 0;
  for (; i + kMost <= m; i += kMost) {
    block<T, kMost, kVectors, kTail>(k, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, tail);
  }
  for (; i + 4 <= m; i += 4) {
    block<T, 4, kVectors, kTail>(k, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, tail);
  }
  for (; i < m; ++i) {
    if constexpr (kVectors == 1) {
      single_row<T, kTail>(k, a + i * a_row, a_column, b, b_row, c + i * c_row, tail);
    } else {
      block<T, 1, kVectors, kTail>(k, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, tail);
    }
  }
}

template <typename T>
void multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_column, const T* b,
              int64_t b_row, T* c) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    stripe<T, 2, false>(m, k, a, a_row, a_column, b + j, b_row, c + j, n, 0);
  }
  const int64_t rest = n - j;
  if (rest > lanes) {
    stripe<T, 2, true>(m, k, a, a_row, a_column, b + j, b_row, c + j, n, static_cast<size_t>(rest - lanes));
  } else if (rest == lanes) {
    stripe<T, 1, false>(m, k, a, a_row, a_column, b + j, b_row, c + j, n, 0);
  } else if (rest > 0) {
    stripe<T, 1, true>(m, k, a, a_row, a_column, b + j, b_row, c + j, n, static_cast<size_t>(rest));
  }
}

void multiply_f32(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                  const float* b, int64_t b_row, float* c) {
  multiply<float>(m, n, k, a, a_row, a_column, b, b_row, c);
}
void multiply_f64(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
                  const double* b, int64_t b_row, double* c) {
  multiply<double>(m, n, k, a, a_row, a_column, b, b_row, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f64);

template <>
void small_matmul<float>(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                         const float* b, int64_t b_row, float* c) {
  if (n == 1 && a_row == 1 && m > 1) {  // a column of results is a row of the transposed product
    HWY_DYNAMIC_DISPATCH(multiply_f32)(1, m, k, b, 0, b_row, a, a_column, c);
    return;
  }
  HWY_DYNAMIC_DISPATCH(multiply_f32)(m, n, k, a, a_row, a_column, b, b_row, c);
}
template <>
void small_matmul<double>(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
                          const double* b, int64_t b_row, double* c) {
  if (n == 1 && a_row == 1 && m > 1) {
    HWY_DYNAMIC_DISPATCH(multiply_f64)(1, m, k, b, 0, b_row, a, a_column, c);
    return;
  }
  HWY_DYNAMIC_DISPATCH(multiply_f64)(m, n, k, a, a_row, a_column, b, b_row, c);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
