#include "isochron/ops/cpu/group_norm_functions.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/group_norm_functions.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/ops/cpu/narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlockRows = 128;                       // summed in T before f64 takes over
constexpr int kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // side by side, as registers allow

/// body(first place, number of vectors as a constant, lanes of each) for runs of vectors that cover a row;
/// only the last vector may have fewer lanes than there are.
template <class D, class Body>
HWY_INLINE void each_run(D d, int64_t width, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + kVectors * lanes <= width; i += kVectors * lanes) {
    body(i, std::integral_constant<int, kVectors>(), hn::Lanes(d));
  }
  for (; i + lanes <= width; i += lanes) body(i, std::integral_constant<int, 1>(), hn::Lanes(d));
  if (i < width) body(i, std::integral_constant<int, 1>(), static_cast<size_t>(width - i));
}

/// Goes through rows as kStreams parts side by side: what one core reads one after the other from memory or
/// the third cache comes at two thirds of the pace of what it reads in several places at once. body(first
/// row, rows of each part, rows from one part to the next, parts as a constant), for at most `most` rows in
/// all.
template <int kStreams, class Body>
HWY_INLINE void each_block(int64_t rows, int64_t most, Body body) {
  const int64_t part = rows / kStreams;
  for (int64_t r = 0; r < part; r += most / kStreams) {
    body(r, std::min(most / kStreams, part - r), part, std::integral_constant<int, kStreams>());
  }
  for (int64_t r = part * kStreams; r < rows; r += most) {
    body(r, std::min(most, rows - r), int64_t{0}, std::integral_constant<int, 1>());
  }
}

/// How many rows in turn may be gone through run by run: where a row is more than one, one, since memory is
/// read best without gaps.
template <class D>
HWY_INLINE int64_t rows_of_run(D d, int64_t width) {
  return width <= kVectors * static_cast<int64_t>(hn::Lanes(d)) ? kBlockRows : 1;
}

/// As many elements as `wide` has lanes, as f64.
template <class D, class V>
HWY_INLINE hn::Vec<D> widened(D wide, V v) {
  if constexpr (sizeof(hn::TFromV<V>) == sizeof(double)) {
    return v;
  } else {
    return hn::PromoteTo(wide, v);
  }
}
template <class D, class V>
HWY_INLINE hn::Vec<D> narrowed(D narrow, V v) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
    return v;
  } else {
    return hn::DemoteTo(narrow, v);
  }
}

/// shift, sums and squares: of a block of `rows` rows, relative to `shift`. Adds them to the totals, which
/// are relative to `base`, makes the block's mean the shift of the next, and clears the block's sums.
template <typename T>
void end_block(const T* base, int64_t rows, int64_t width, T* shift, T* block_sums, T* block_squares,
               double* sums, double* squares) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<T, hn::ScalableTag<double>> narrow;
  const auto count = hn::Set(wide, static_cast<double>(rows));
  const auto share = hn::Set(wide, 1.0 / static_cast<double>(rows));
  each_vector(wide, width, [&](int64_t i, size_t lanes) HWY_ATTR {
    const auto s = widened(wide, load_lanes(narrow, block_sums + i, lanes));
    const auto q = widened(wide, load_lanes(narrow, block_squares + i, lanes));
    const auto from = widened(wide, load_lanes(narrow, shift + i, lanes));
    const auto offset = from - widened(wide, load_lanes(narrow, base + i, lanes));
    const auto moved = offset * count;
    store_lanes(wide, load_lanes(wide, sums + i, lanes) + (s + moved), sums + i, lanes);
    const auto square = hn::MulAdd(offset, s + s + moved, q);
    store_lanes(wide, load_lanes(wide, squares + i, lanes) + square, squares + i, lanes);
    store_lanes(narrow, narrowed(narrow, hn::MulAdd(s, share, from)), shift + i, lanes);
    store_lanes(narrow, hn::Zero(narrow), block_sums + i, lanes);
    store_lanes(narrow, hn::Zero(narrow), block_squares + i, lanes);
  });
}

template <typename E, typename T = ComputeType<E>>
void add_moments(const E* x, const T* base, int64_t rows, int64_t stride, int64_t width, T* scratch,
                 double* sums, double* squares) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  T* shift = scratch;
  T* block_sums = scratch + width;
  T* block_squares = scratch + 2 * width;
  each_vector(d, width, [&](int64_t i, size_t lanes) HWY_ATTR {
    store_lanes(d, load_numbers(d, x + i, lanes), shift + i, lanes);
    store_lanes(d, hn::Zero(d), block_sums + i, lanes);
    store_lanes(d, hn::Zero(d), block_squares + i, lanes);
  });
  const int64_t most = rows_of_run(d, width);
  each_block<4>(rows, kBlockRows, [&](int64_t first, int64_t count, int64_t apart, auto parts) HWY_ATTR {
    constexpr int kParts = decltype(parts)::value;
    for (int64_t begin = 0; begin < count; begin += most) {
      const int64_t end = std::min(begin + most, count);
      each_run(d, width, [&](int64_t i, auto vectors, size_t lanes) HWY_ATTR {
        constexpr int kCount = decltype(vectors)::value;
        V from[kCount], sum[kCount], square[kCount];
        for (int v = 0; v < kCount; ++v) {
          from[v] = load_lanes(d, shift + i + v * n, lanes);
          sum[v] = load_lanes(d, block_sums + i + v * n, lanes);
          square[v] = load_lanes(d, block_squares + i + v * n, lanes);
        }
        for (int64_t r = begin; r < end; ++r) {
          for (int part = 0; part < kParts; ++part) {
            const E* row = x + (first + r + part * apart) * stride + i;
            for (int v = 0; v < kCount; ++v) {
              const V e = load_numbers(d, row + v * n, lanes) - from[v];
              sum[v] = sum[v] + e;
              square[v] = hn::MulAdd(e, e, square[v]);
            }
          }
        }
        for (int v = 0; v < kCount; ++v) {
          store_lanes(d, sum[v], block_sums + i + v * n, lanes);
          store_lanes(d, square[v], block_squares + i + v * n, lanes);
        }
      });
    }
    end_block(base, count * kParts, width, shift, block_sums, block_squares, sums, squares);
  });
}

template <typename E, typename T = ComputeType<E>>
void normalize(const E* x, const T* center, const T* scale, const T* shift, int64_t rows, int64_t stride,
               int64_t width, E* y) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  const int64_t most = rows_of_run(d, width);
  each_block<2>(rows, rows, [&](int64_t first, int64_t count, int64_t apart, auto parts) HWY_ATTR {
    constexpr int kParts = decltype(parts)::value;
    for (int64_t begin = 0; begin < count; begin += most) {
      const int64_t end = std::min(begin + most, count);
      each_run(d, width, [&](int64_t i, auto vectors, size_t lanes) HWY_ATTR {
        constexpr int kCount = decltype(vectors)::value;
        V c[kCount], a[kCount], b[kCount];
        for (int v = 0; v < kCount; ++v) {
          c[v] = load_lanes(d, center + i + v * n, lanes);
          a[v] = load_lanes(d, scale + i + v * n, lanes);
          b[v] = load_lanes(d, shift + i + v * n, lanes);
        }
        for (int64_t r = begin; r < end; ++r) {
          for (int part = 0; part < kParts; ++part) {
            const int64_t at = (first + r + part * apart) * stride + i;
            for (int v = 0; v < kCount; ++v) {
              const V e = load_numbers(d, x + at + v * n, lanes) - c[v];
              store_numbers(d, hn::MulAdd(e, a[v], b[v]), y + at + v * n, lanes);
            }
          }
        }
      });
    }
  });
}

template <typename E, typename T = ComputeType<E>>
void add_products(const E* x, const E* dy, const T* center, int64_t rows, int64_t stride, int64_t width,
                  T* scratch, double* sums, double* products) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  T* block_sums = scratch;
  T* block_products = scratch + width;
  const hn::ScalableTag<double> wide;
  const hn::Rebind<T, hn::ScalableTag<double>> narrow;
  const int64_t most = rows_of_run(d, width);
  each_block<2>(rows, kBlockRows, [&](int64_t first, int64_t count, int64_t apart, auto parts) HWY_ATTR {
    constexpr int kParts = decltype(parts)::value;
    std::fill_n(scratch, 2 * width, T(0));
    for (int64_t begin = 0; begin < count; begin += most) {
      const int64_t end = std::min(begin + most, count);
      each_run(d, width, [&](int64_t i, auto vectors, size_t lanes) HWY_ATTR {
        constexpr int kCount = decltype(vectors)::value;
        V c[kCount], sum[kCount], product[kCount];
        for (int v = 0; v < kCount; ++v) {
          c[v] = load_lanes(d, center + i + v * n, lanes);
          sum[v] = load_lanes(d, block_sums + i + v * n, lanes);
          product[v] = load_lanes(d, block_products + i + v * n, lanes);
        }
        for (int64_t r = begin; r < end; ++r) {
          for (int part = 0; part < kParts; ++part) {
            const int64_t at = (first + r + part * apart) * stride + i;
            for (int v = 0; v < kCount; ++v) {
              const V g = load_numbers(d, dy + at + v * n, lanes);
              sum[v] = sum[v] + g;
              product[v] = hn::MulAdd(g, load_numbers(d, x + at + v * n, lanes) - c[v], product[v]);
            }
          }
        }
        for (int v = 0; v < kCount; ++v) {
          store_lanes(d, sum[v], block_sums + i + v * n, lanes);
          store_lanes(d, product[v], block_products + i + v * n, lanes);
        }
      });
    }
    each_vector(wide, width, [&](int64_t i, size_t lanes) HWY_ATTR {
      const auto s = widened(wide, load_lanes(narrow, block_sums + i, lanes));
      const auto p = widened(wide, load_lanes(narrow, block_products + i, lanes));
      store_lanes(wide, load_lanes(wide, sums + i, lanes) + s, sums + i, lanes);
      store_lanes(wide, load_lanes(wide, products + i, lanes) + p, products + i, lanes);
    });
  });
}

template <typename E, typename T = ComputeType<E>>
void gradient(const E* x, const E* dy, const T* center, const T* scale, const T* dot, const T* mean,
              int64_t rows, int64_t stride, int64_t width, E* dx) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  const int64_t most = rows_of_run(d, width);
  each_block<2>(rows, rows, [&](int64_t first, int64_t count, int64_t apart, auto parts) HWY_ATTR {
    constexpr int kParts = decltype(parts)::value;
    for (int64_t begin = 0; begin < count; begin += most) {
      const int64_t end = std::min(begin + most, count);
      each_run(d, width, [&](int64_t i, auto vectors, size_t lanes) HWY_ATTR {
        constexpr int kCount = decltype(vectors)::value;
        V c[kCount], a[kCount], b[kCount], m[kCount];
        for (int v = 0; v < kCount; ++v) {
          c[v] = load_lanes(d, center + i + v * n, lanes);
          a[v] = load_lanes(d, scale + i + v * n, lanes);
          b[v] = load_lanes(d, dot + i + v * n, lanes);
          m[v] = load_lanes(d, mean + i + v * n, lanes);
        }
        for (int64_t r = begin; r < end; ++r) {
          for (int part = 0; part < kParts; ++part) {
            const int64_t at = (first + r + part * apart) * stride + i;
            for (int v = 0; v < kCount; ++v) {
              const V rest = hn::MulAdd(load_numbers(d, x + at + v * n, lanes) - c[v], b[v], m[v]);
              const V value = hn::MulSub(load_numbers(d, dy + at + v * n, lanes), a[v], rest);
              store_numbers(d, value, dx + at + v * n, lanes);
            }
          }
        }
      });
    }
  });
}

void add(const double* from, int64_t n, double* into) {
  const hn::ScalableTag<double> d;
  each_vector(d, n, [&](int64_t i, size_t lanes) HWY_ATTR {
    store_lanes(d, load_lanes(d, from + i, lanes) + load_lanes(d, into + i, lanes), into + i, lanes);
  });
}

template <typename E>
GroupNormFunctions<E> functions_of() {
  return {add_moments<E>, normalize<E>, add_products<E>, gradient<E>, add};
}
GroupNormFunctions<float> functions_f32() { return functions_of<float>(); }
GroupNormFunctions<double> functions_f64() { return functions_of<double>(); }
GroupNormFunctions<float16> functions_f16() { return functions_of<float16>(); }
GroupNormFunctions<bfloat16> functions_bf16() { return functions_of<bfloat16>(); }

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(functions_f32);
HWY_EXPORT(functions_f64);
HWY_EXPORT(functions_f16);
HWY_EXPORT(functions_bf16);

template <>
GroupNormFunctions<float> group_norm_functions<float>() {
  return HWY_DYNAMIC_DISPATCH(functions_f32)();
}
template <>
GroupNormFunctions<double> group_norm_functions<double>() {
  return HWY_DYNAMIC_DISPATCH(functions_f64)();
}
template <>
GroupNormFunctions<float16> group_norm_functions<float16>() {
  return HWY_DYNAMIC_DISPATCH(functions_f16)();
}
template <>
GroupNormFunctions<bfloat16> group_norm_functions<bfloat16>() {
  return HWY_DYNAMIC_DISPATCH(functions_bf16)();
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
