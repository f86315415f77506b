#include "isochron/backends/cpu/normalization/group_norm_functions.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/normalization/group_norm_functions.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlockRows = 128;  // rows that are summed in T; their sums are added in f64
constexpr int kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // side by side, limited by registers

/// Adjacent vectors of a row, processed in rows [begin, end) of each of kParts parts. Only the last vector of
/// a row may be incomplete.
template <class D, int kParts, int kVectorsOfRun>
struct Run {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  static constexpr int kVectors = kVectorsOfRun;

  int64_t place;  // position in the row
  size_t lanes;
  int64_t begin;
  int64_t end;
  int64_t apart;  // rows from one part to the next

  HWY_INLINE int64_t at(int v) const { return place + v * static_cast<int64_t>(hn::Lanes(D())); }
  /// Loads or stores vector v of a table with a number for each position of a row.
  HWY_INLINE V load(const T* table, int v) const { return load_lanes(D(), table + at(v), lanes); }
  HWY_INLINE void store(V value, T* table, int v) const { store_lanes(D(), value, table + at(v), lanes); }
  /// body(element, v) for vector v of each row.
  template <class Body>
  HWY_INLINE void each(int64_t stride, Body body) const {
    for (int64_t r = begin; r < end; ++r) {
      for (int part = 0; part < kParts; ++part) {
        for (int v = 0; v < kVectors; ++v) body((r + part * apart) * stride + at(v), v);
      }
    }
  }
};

/// `count` rows, from `first` on, in each of kParts parts.
template <int kPartsOfBlock>
struct Block {
  static constexpr int kParts = kPartsOfBlock;
  int64_t first;
  int64_t count;
  int64_t apart;

  int64_t rows() const { return count * kParts; }
  /// Calls body(Run) for runs that cover the rows. If a row is longer than a run, rows are processed one by
  /// one, because reading memory without gaps is fastest.
  template <class D, class Body>
  HWY_INLINE void each_run(D d, int64_t width, Body body) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t most = width <= kVectors * lanes ? count : 1;
    for (int64_t r = first; r < first + count; r += most) {
      int64_t i = 0;
      for (; i + kVectors * lanes <= width; i += kVectors * lanes) {
        body(Run<D, kParts, kVectors>{i, hn::Lanes(d), r, r + most, apart});
      }
      for (; i < width; i += lanes) {
        const size_t valid = static_cast<size_t>(std::min(lanes, width - i));
        body(Run<D, kParts, 1>{i, valid, r, r + most, apart});
      }
    }
  }
};

/// Calls body(Block) for blocks of at most `most` rows, and of at least kStreams rows if there are that many.
/// The rows are read as kStreams parallel streams: a core that reads a single sequential stream from memory
/// or L3 gets only two thirds of the bandwidth that it gets from several streams.
template <int kStreams, class Body>
HWY_INLINE void each_block(int64_t rows, int64_t most, Body body) {
  const int64_t part = rows / kStreams;
  for (int64_t r = 0; r < part; r += most / kStreams) {
    body(Block<kStreams>{r, std::min(most / kStreams, part - r), part});
  }
  for (int64_t r = part * kStreams; r < rows; r += most) {
    body(Block<1>{r, std::min(most, rows - r), 0});
  }
}

/// Converts as many elements as `wide` has lanes to f64.
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

/// Ends a block of `rows` rows with the given shift, sums and squares, which are relative to `shift`. Adds
/// the sums to the totals, which are relative to `base`, makes the block's mean the shift of the next block,
/// and clears the block's sums.
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
  T* shift = scratch;
  T* block_sums = scratch + width;
  T* block_squares = scratch + 2 * width;
  each_vector(d, width, [&](int64_t i, size_t lanes) HWY_ATTR {
    store_lanes(d, load_numbers(d, x + i, lanes), shift + i, lanes);
    store_lanes(d, hn::Zero(d), block_sums + i, lanes);
    store_lanes(d, hn::Zero(d), block_squares + i, lanes);
  });
  each_block<4>(rows, kBlockRows, [&](auto block) HWY_ATTR {
    block.each_run(d, width, [&](auto run) HWY_ATTR {
      V from[run.kVectors], sum[run.kVectors], square[run.kVectors];
      for (int v = 0; v < run.kVectors; ++v) {
        from[v] = run.load(shift, v);
        sum[v] = run.load(block_sums, v);
        square[v] = run.load(block_squares, v);
      }
      run.each(stride, [&](int64_t at, int v) HWY_ATTR {
        const V e = load_numbers(d, x + at, run.lanes) - from[v];
        sum[v] = sum[v] + e;
        square[v] = hn::MulAdd(e, e, square[v]);
      });
      for (int v = 0; v < run.kVectors; ++v) {
        run.store(sum[v], block_sums, v);
        run.store(square[v], block_squares, v);
      }
    });
    end_block(base, block.rows(), width, shift, block_sums, block_squares, sums, squares);
  });
}

template <typename E, typename T = ComputeType<E>>
void normalize(const E* x, const T* center, const T* scale, const T* shift, int64_t rows, int64_t stride,
               int64_t width, E* y) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  each_block<2>(rows, rows, [&](auto block) HWY_ATTR {
    block.each_run(d, width, [&](auto run) HWY_ATTR {
      V c[run.kVectors], a[run.kVectors], b[run.kVectors];
      for (int v = 0; v < run.kVectors; ++v) {
        c[v] = run.load(center, v);
        a[v] = run.load(scale, v);
        b[v] = run.load(shift, v);
      }
      run.each(stride, [&](int64_t at, int v) HWY_ATTR {
        const V e = load_numbers(d, x + at, run.lanes) - c[v];
        store_numbers(d, hn::MulAdd(e, a[v], b[v]), y + at, run.lanes);
      });
    });
  });
}

template <typename E, typename T = ComputeType<E>>
void add_products(const E* x, const E* dy, const T* center, int64_t rows, int64_t stride, int64_t width,
                  T* scratch, double* sums, double* products) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  T* block_sums = scratch;
  T* block_products = scratch + width;
  const hn::ScalableTag<double> wide;
  const hn::Rebind<T, hn::ScalableTag<double>> narrow;
  each_block<2>(rows, kBlockRows, [&](auto block) HWY_ATTR {
    std::fill_n(scratch, 2 * width, T(0));
    block.each_run(d, width, [&](auto run) HWY_ATTR {
      V c[run.kVectors], sum[run.kVectors], product[run.kVectors];
      for (int v = 0; v < run.kVectors; ++v) {
        c[v] = run.load(center, v);
        sum[v] = run.load(block_sums, v);
        product[v] = run.load(block_products, v);
      }
      run.each(stride, [&](int64_t at, int v) HWY_ATTR {
        const V g = load_numbers(d, dy + at, run.lanes);
        sum[v] = sum[v] + g;
        product[v] = hn::MulAdd(g, load_numbers(d, x + at, run.lanes) - c[v], product[v]);
      });
      for (int v = 0; v < run.kVectors; ++v) {
        run.store(sum[v], block_sums, v);
        run.store(product[v], block_products, v);
      }
    });
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
  each_block<2>(rows, rows, [&](auto block) HWY_ATTR {
    block.each_run(d, width, [&](auto run) HWY_ATTR {
      V c[run.kVectors], a[run.kVectors], b[run.kVectors], m[run.kVectors];
      for (int v = 0; v < run.kVectors; ++v) {
        c[v] = run.load(center, v);
        a[v] = run.load(scale, v);
        b[v] = run.load(dot, v);
        m[v] = run.load(mean, v);
      }
      run.each(stride, [&](int64_t at, int v) HWY_ATTR {
        const V rest = hn::MulAdd(load_numbers(d, x + at, run.lanes) - c[v], b[v], m[v]);
        store_numbers(d, hn::MulSub(load_numbers(d, dy + at, run.lanes), a[v], rest), dx + at, run.lanes);
      });
    });
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
