// The vector functions of pooling.
#include "isochron/ops/cpu/pooling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/pooling_functions.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "isochron/ops/cpu/narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Numbers are stored as E and computed as T, positions are stored as P.
template <typename E, typename P>
struct Functions {
  using T = ComputeType<E>;
  using D = hn::ScalableTag<T>;

  static void max(const E* const* rows, const int32_t* positions, int64_t count, E* y, P* at, int64_t n) {
    // Positions ride along as numbers of T (exact: a window has far fewer than 2^24 elements).
    const D d;
    each_vector(d, n, [=](int64_t c, size_t lanes) HWY_ATTR {
      auto best = load_numbers(d, rows[0] + c, lanes);
      auto where = hn::Set(d, static_cast<T>(positions[0]));
      for (int64_t k = 1; k < count; ++k) {  // (Ne would be false on NaN in some instruction sets)
        const auto x = load_numbers(d, rows[k] + c, lanes);
        const auto better = hn::Or(hn::Gt(x, best), hn::AndNot(hn::Eq(x, x), hn::Eq(best, best)));
        best = hn::IfThenElse(better, x, best);
        where = hn::IfThenElse(better, hn::Set(d, static_cast<T>(positions[k])), where);
      }
      if (y) store_numbers(d, best, y + c, lanes);
      if (at) store_positions(where, at + c, lanes);
    });
  }

  static void scaled_sum(const E* const* rows, int64_t count, T factor, E* y, int64_t n) {
    const D d;
    each_vector(d, n, [=](int64_t c, size_t lanes) HWY_ATTR {
      auto total = hn::Zero(d);
      for (int64_t k = 0; k < count; ++k) total = total + load_numbers(d, rows[k] + c, lanes);
      store_numbers(d, total * hn::Set(d, factor), y + c, lanes);
    });
  }

  static void scatter(E* dx, const E* g, const P* at, int32_t position, bool add, int64_t n) {
    const D d;
    each_vector(d, n, [=](int64_t c, size_t lanes) HWY_ATTR {
      const auto hit = hn::Eq(load_positions(at + c, lanes), hn::Set(d, static_cast<T>(position)));
      const auto value = hn::IfThenElseZero(hit, load_numbers(d, g + c, lanes));
      store_numbers(d, add ? value + load_numbers(d, dx + c, lanes) : value, dx + c, lanes);
    });
  }

  static void scaled_add(E* dx, const E* g, T factor, bool add, int64_t n) {
    const D d;
    each_vector(d, n, [=](int64_t c, size_t lanes) HWY_ATTR {
      const auto value = load_numbers(d, g + c, lanes) * hn::Set(d, factor);
      store_numbers(d, add ? value + load_numbers(d, dx + c, lanes) : value, dx + c, lanes);
    });
  }

 private:
  using Narrow = hn::Rebind<P, D>;
  using Integers = hn::Rebind<int32_t, D>;

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
    const Narrow narrow;
    const auto store = [&](P* whole) HWY_ATTR {
      if constexpr (sizeof(P) == 4) {
        hn::StoreU(v, narrow, whole);
      } else {
        hn::StoreU(hn::DemoteTo(narrow, v), narrow, whole);
      }
    };
    if (lanes == hn::Lanes(D())) return store(to);
    HWY_ALIGN P part[HWY_MAX_BYTES / sizeof(T)];
    store(part);
    std::memcpy(to, part, std::min(lanes * sizeof(P), sizeof(part)));  // never more: for the compiler to see
  }
  static HWY_INLINE hn::Vec<D> load_positions(const P* from, size_t lanes) {
    HWY_ALIGN P part[HWY_MAX_BYTES / sizeof(T)] = {};
    if (lanes != hn::Lanes(D())) {
      std::memcpy(part, from, std::min(lanes * sizeof(P), sizeof(part)));
      from = part;
    }
    const Integers integers;
    const auto stored = hn::LoadU(Narrow(), from);
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
                                        Functions<E, P>::scatter, Functions<E, P>::scaled_add};

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
