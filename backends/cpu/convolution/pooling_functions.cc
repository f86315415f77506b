// The vector functions of pooling.
#include "isochron/backends/cpu/convolution/pooling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/convolution/pooling_functions.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "isochron/backends/cpu/common/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Numbers are stored as E and computed as T, positions are stored as P.
template <typename E, typename P>
struct Functions {
  using T = ComputeType<E>;
  using D = hn::ScalableTag<T>;

  static void max(const WindowRun& run, const E* x, E* y, P* at) {
    // Positions are kept in vectors of T. This is exact: a window has far fewer than 2^24 elements.
    const D d;
    each_window(run, [&](int64_t from, int64_t to, size_t lanes) HWY_ATTR {
      const E* pixel = x + from;
      auto best = load_numbers(d, pixel + run.offsets[0], lanes);
      auto where = hn::Set(d, static_cast<T>(run.positions[0]));
      for (int64_t k = 1; k < run.count; ++k) {  // (Ne would be false on NaN in some instruction sets)
        const auto other = load_numbers(d, pixel + run.offsets[k], lanes);
        const auto better = hn::Or(hn::Gt(other, best), hn::AndNot(hn::Eq(other, other), hn::Eq(best, best)));
        best = hn::IfThenElse(better, other, best);
        where = hn::IfThenElse(better, hn::Set(d, static_cast<T>(run.positions[k])), where);
      }
      if (y) store_numbers(d, best, y + to, lanes);
      if (at) store_positions(where, at + to, lanes);
    });
  }

  /// The sum over the elements [first, end) of the window. It is computed pairwise, so that the error doesn't
  /// grow in large windows.
  static hn::VFromD<D> sum_of(const WindowRun& run, const E* x, int64_t first, int64_t end, size_t lanes) {
    constexpr int64_t kByOne = 256;
    if (end - first > kByOne) {
      const int64_t middle = first + (end - first) / 2;
      return hn::Add(sum_of(run, x, first, middle, lanes), sum_of(run, x, middle, end, lanes));
    }
    const D d;
    auto total = hn::Zero(d);
    for (int64_t k = first; k < end; ++k) total = total + load_numbers(d, x + run.offsets[k], lanes);
    return total;
  }

  static void scaled_sum(const WindowRun& run, const E* x, T factor, E* y) {
    const D d;
    each_window(run, [&](int64_t from, int64_t to, size_t lanes) HWY_ATTR {
      const auto total = sum_of(run, x + from, 0, run.count, lanes);
      store_numbers(d, total * hn::Set(d, factor), y + to, lanes);
    });
  }

  static void select(const WindowRun& run, const E* x, const P* at, E* y) {
    const D d;
    each_window(run, [&](int64_t from, int64_t to, size_t lanes) HWY_ATTR {
      const auto where = load_positions(at + to, lanes);
      auto selected = hn::Zero(d);
      for (int64_t k = 0; k < run.count; ++k) {
        const auto hit = hn::Eq(where, hn::Set(d, static_cast<T>(run.positions[k])));
        selected = hn::IfThenElse(hit, load_numbers(d, x + from + run.offsets[k], lanes), selected);
      }
      store_numbers(d, selected, y + to, lanes);
    });
  }

  static void scatter(const WindowRun& run, const E* dy, const P* at, bool add, E* dx) {
    const D d;
    each_window(run, [&](int64_t from, int64_t to, size_t lanes) HWY_ATTR {
      const auto gradient = load_numbers(d, dy + to, lanes);
      const auto where = load_positions(at + to, lanes);
      for (int64_t k = 0; k < run.count; ++k) {
        const auto hit = hn::Eq(where, hn::Set(d, static_cast<T>(run.positions[k])));
        add_or_store(d, hn::IfThenElseZero(hit, gradient), add, dx + from + run.offsets[k], lanes);
      }
    });
  }

  static void scaled_add(const WindowRun& run, const E* dy, T factor, bool add, E* dx) {
    const D d;
    each_window(run, [&](int64_t from, int64_t to, size_t lanes) HWY_ATTR {
      const auto value = load_numbers(d, dy + to, lanes) * hn::Set(d, factor);
      for (int64_t k = 0; k < run.count; ++k) {
        add_or_store(d, value, add, dx + from + run.offsets[k], lanes);
      }
    });
  }

 private:
  using Half = hn::Rebind<P, D>;
  using Integers = hn::Rebind<int32_t, D>;

  /// Calls body(offset in the image, offset in the output, lanes) for each vector of each window's channels.
  template <class Body>
  static HWY_INLINE void each_window(const WindowRun& run, Body body) {
    for (int64_t window = 0; window < run.windows; ++window) {
      const int64_t from = window * run.step, to = window * run.channels;
      each_vector(D(), run.channels,
                  [&](int64_t c, size_t lanes) HWY_ATTR { body(from + c, to + c, lanes); });
    }
  }

  static HWY_INLINE void add_or_store(D d, hn::Vec<D> value, bool add, E* to, size_t lanes) {
    store_numbers(d, add ? value + load_numbers(d, to, lanes) : value, to, lanes);
  }

  static HWY_INLINE void store_positions(hn::Vec<D> v, P* to, size_t lanes) {
    const Integers integers;
    if constexpr (sizeof(T) == 4) {
      store_integers(hn::ConvertTo(integers, v), to, lanes);
    } else {
      store_integers(hn::DemoteTo(integers, v), to, lanes);
    }
  }
  template <class V>
  static HWY_INLINE void store_integers(V v, P* to, size_t lanes) {
    const Half half;
    const auto store = [&](P* whole) HWY_ATTR {
      if constexpr (sizeof(P) == 4) {
        hn::StoreU(v, half, whole);
      } else {
        hn::StoreU(hn::DemoteTo(half, v), half, whole);
      }
    };
    if (lanes == hn::Lanes(D())) return store(to);
    HWY_ALIGN P part[HWY_MAX_BYTES / sizeof(T)];
    store(part);
    std::memcpy(to, part, std::min(lanes * sizeof(P), sizeof(part)));  // the bound helps the compiler
  }
  static HWY_INLINE hn::Vec<D> load_positions(const P* from, size_t lanes) {
    HWY_ALIGN P part[HWY_MAX_BYTES / sizeof(T)] = {};
    if (lanes != hn::Lanes(D())) {
      std::memcpy(part, from, std::min(lanes * sizeof(P), sizeof(part)));
      from = part;
    }
    const Integers integers;
    const auto stored = hn::LoadU(Half(), from);
    if constexpr (sizeof(P) == 4) {
      return numbers(stored);
    } else {
      return numbers(hn::PromoteTo(integers, stored));
    }
  }
  template <class V>
  static HWY_INLINE hn::Vec<D> numbers(V v) {
    if constexpr (sizeof(T) == 4) {
      return hn::ConvertTo(D(), v);
    } else {
      return hn::PromoteTo(D(), v);
    }
  }
};

template <typename E, typename P>
constexpr PoolingFunctions<E, P> kTable{Functions<E, P>::max, Functions<E, P>::scaled_sum,
                                        Functions<E, P>::select, Functions<E, P>::scatter,
                                        Functions<E, P>::scaled_add};

#define ISOCHRON_POOLING_TABLE(E, P) \
  const PoolingFunctions<E, P>* table_##E##_##P() { return &kTable<E, P>; }
ISOCHRON_POOLING_TABLE(float, uint8_t)
ISOCHRON_POOLING_TABLE(float, int32_t)
ISOCHRON_POOLING_TABLE(double, uint8_t)
ISOCHRON_POOLING_TABLE(double, int32_t)
ISOCHRON_POOLING_TABLE(float16, uint8_t)
ISOCHRON_POOLING_TABLE(float16, int32_t)
ISOCHRON_POOLING_TABLE(bfloat16, uint8_t)
ISOCHRON_POOLING_TABLE(bfloat16, int32_t)
#undef ISOCHRON_POOLING_TABLE

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

#define ISOCHRON_POOLING_TABLE(E, P)                        \
  HWY_EXPORT(table_##E##_##P);                              \
  template <>                                               \
  const PoolingFunctions<E, P>& pooling_functions<E, P>() { \
    return *HWY_DYNAMIC_DISPATCH(table_##E##_##P)();        \
  }
ISOCHRON_POOLING_TABLE(float, uint8_t)
ISOCHRON_POOLING_TABLE(float, int32_t)
ISOCHRON_POOLING_TABLE(double, uint8_t)
ISOCHRON_POOLING_TABLE(double, int32_t)
ISOCHRON_POOLING_TABLE(float16, uint8_t)
ISOCHRON_POOLING_TABLE(float16, int32_t)
ISOCHRON_POOLING_TABLE(bfloat16, uint8_t)
ISOCHRON_POOLING_TABLE(bfloat16, int32_t)
#undef ISOCHRON_POOLING_TABLE

}  // namespace isochron::ops
#endif  // HWY_ONCE
