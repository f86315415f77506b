// The small matrix multiply: rows of the result in vector registers, the first operand broadcast from memory.
// For kernels that multiply blocks in cache; backends/cpu/matmul/matmul.h has it as a function. Included once
// per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_SMALL_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_SMALL_MATMUL_INL_H_
#undef ISOCHRON_OPS_CPU_SMALL_MATMUL_INL_H_
#else
#define ISOCHRON_OPS_CPU_SMALL_MATMUL_INL_H_
#endif

#include "isochron/backends/cpu/common/tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

/// c (m x n) = a b, or c += a b. Element (i, p) of a is at a[i * a_row + p * a_column]; rows of b and c are
/// contiguous, b_row and c_row apart.
template <typename T>
struct Product {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row;
};

/// The block of kRows x (kVectors * lanes) of c at (i, j); the last vector holds `tail` columns (0: all).
template <typename T, int kRows, int kVectors, bool kTail, bool kAdd>
HWY_INLINE void product_block(const Product<T>& s, int64_t i, int64_t j, size_t tail) {
  namespace hn = hwy::HWY_NAMESPACE;
  using D = hn::ScalableTag<T>;
  const D d;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::FirstN(d, kTail ? tail : lanes);
  const T* a = s.a + i * s.a_row;
  const T* b = s.b + j;
  T* c = s.c + i * s.c_row + j;
  const auto at = [&](int r, int v) HWY_ATTR {
    return c + r * s.c_row + static_cast<int64_t>(static_cast<size_t>(v) * lanes);
  };
  hn::Vec<D> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (!kAdd) {
        sums[r][v] = hn::Zero(d);
      } else {
        sums[r][v] = kTail && v == kVectors - 1 ? masked_load(mask, d, at(r, v)) : hn::LoadU(d, at(r, v));
      }
    }
  }
  for (int64_t p = 0; p < s.k; ++p) {
    hn::Vec<D> row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const T* from = b + p * s.b_row + static_cast<int64_t>(static_cast<size_t>(v) * lanes);
      row[v] = kTail && v == kVectors - 1 ? masked_load(mask, d, from) : hn::LoadU(d, from);
    }
    const T* column = a + p * s.a_column;
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, column[r * s.a_row]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(x, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      if (kTail && v == kVectors - 1) {
        masked_store(sums[r][v], mask, d, at(r, v));
      } else {
        hn::StoreU(sums[r][v], d, at(r, v));
      }
    }
  }
}

/// One row and one vector, with four accumulators over k: a single one would wait for each addition.
template <typename T, bool kTail, bool kAdd>
HWY_INLINE void product_row(const Product<T>& s, int64_t i, int64_t j, size_t tail) {
  namespace hn = hwy::HWY_NAMESPACE;
  using D = hn::ScalableTag<T>;
  const D d;
  const auto mask = hn::FirstN(d, kTail ? tail : hn::Lanes(d));
  const T* a = s.a + i * s.a_row;
  T* c = s.c + i * s.c_row + j;
  const auto load = [&](const T* from)
                        HWY_ATTR { return kTail ? masked_load(mask, d, from) : hn::LoadU(d, from); };
  const auto step = [&](int64_t p, hn::Vec<D> sum) HWY_ATTR {
    return hn::MulAdd(hn::Set(d, a[p * s.a_column]), load(s.b + p * s.b_row + j), sum);
  };
  auto s0 = kAdd ? load(c) : hn::Zero(d);
  auto s1 = hn::Zero(d);
  auto s2 = s1;
  auto s3 = s1;
  int64_t p = 0;
  for (; p + 4 <= s.k; p += 4) {
    s0 = step(p, s0);
    s1 = step(p + 1, s1);
    s2 = step(p + 2, s2);
    s3 = step(p + 3, s3);
  }
  for (; p < s.k; ++p) s0 = step(p, s0);
  const auto total = (s0 + s1) + (s2 + s3);
  if (kTail) {
    masked_store(total, mask, d, c);
  } else {
    hn::StoreU(total, d, c);
  }
}

/// All rows of a stripe of columns, in blocks of as many rows as registers hold.
template <typename T, int kVectors, bool kTail, bool kAdd>
HWY_INLINE void product_stripe(const Product<T>& s, int64_t j, size_t tail) {
  // 32 registers on AVX-512, 16 elsewhere.
  constexpr int kRegisters = HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3 ? 32 : 16;
  constexpr int kMax = kVectors == 1 ? (kRegisters == 32 ? 16 : 8) : (kRegisters == 32 ? 8 : 4);
  int64_t i = 0;
  for (; i + kMax <= s.m; i += kMax) product_block<T, kMax, kVectors, kTail, kAdd>(s, i, j, tail);
  for (; i + 4 <= s.m; i += 4) product_block<T, 4, kVectors, kTail, kAdd>(s, i, j, tail);
  for (; i < s.m; ++i) {
    if constexpr (kVectors == 1) {
      product_row<T, kTail, kAdd>(s, i, j, tail);
    } else {
      product_block<T, 1, kVectors, kTail, kAdd>(s, i, j, tail);
    }
  }
}

/// Not inlined: the many blocks it consists of would be compiled once for each call.
template <bool kAdd, typename T>
HWY_NOINLINE void multiply(const Product<T>& s) {
  namespace hn = hwy::HWY_NAMESPACE;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t j = 0;
  for (; j + 2 * lanes <= s.n; j += 2 * lanes) product_stripe<T, 2, false, kAdd>(s, j, 0);
  const int64_t rest = s.n - j;
  if (rest > lanes) {
    product_stripe<T, 2, true, kAdd>(s, j, static_cast<size_t>(rest - lanes));
  } else if (rest == lanes) {
    product_stripe<T, 1, false, kAdd>(s, j, 0);
  } else if (rest > 0) {
    product_stripe<T, 1, true, kAdd>(s, j, static_cast<size_t>(rest));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
