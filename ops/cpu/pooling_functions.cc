// The vector functions of pooling.
#include "isochron/ops/cpu/pooling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/pooling_functions.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(d, i) for whole vectors, then for single lanes.
#define ISOCHRON_FOR_LANES(T, n, body)                          \
  const hn::ScalableTag<T> whole;                               \
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(whole)); \
  int64_t i = 0;                                                \
  for (; i + lanes <= n; i += lanes) body(whole, i);            \
  for (; i < n; ++i) body(hn::CappedTag<T, 1>(), i);

template <typename T>
struct Functions {
  static void max(const T* const* rows, const int32_t* positions, int64_t count, T* y, int32_t* at,
                  int64_t n) {
    // Positions ride along as numbers of T (exact: a window has far fewer than 2^24 elements).
    const auto body = [=](auto d, int64_t c) HWY_ATTR {
      auto best = hn::LoadU(d, rows[0] + c);
      auto where = hn::Set(d, static_cast<T>(positions[0]));
      for (int64_t k = 1; k < count; ++k) {  // (Ne would be false on NaN in some instruction sets)
        const auto x = hn::LoadU(d, rows[k] + c);
        const auto better = hn::Or(hn::Gt(x, best), hn::AndNot(hn::Eq(x, x), hn::Eq(best, best)));
        best = hn::IfThenElse(better, x, best);
        where = hn::IfThenElse(better, hn::Set(d, static_cast<T>(positions[k])), where);
      }
      if (y) hn::StoreU(best, d, y + c);
      if (at) hn::StoreU(integers(where), hn::Rebind<int32_t, decltype(d)>(), at + c);
    };
    ISOCHRON_FOR_LANES(T, n, body)
  }

  static void scaled_sum(const T* const* rows, int64_t count, T factor, T* y, int64_t n) {
    const auto body = [=](auto d, int64_t c) HWY_ATTR {
      auto total = hn::Zero(d);
      for (int64_t k = 0; k < count; ++k) total = total + hn::LoadU(d, rows[k] + c);
      hn::StoreU(total * hn::Set(d, factor), d, y + c);
    };
    ISOCHRON_FOR_LANES(T, n, body)
  }

  static void scatter(T* dx, const T* g, const int32_t* at, int32_t position, bool add, int64_t n) {
    const auto body = [=](auto d, int64_t c) HWY_ATTR {
      const auto where = numbers(d, hn::LoadU(hn::Rebind<int32_t, decltype(d)>(), at + c));
      const auto hit = hn::Eq(where, hn::Set(d, static_cast<T>(position)));
      const auto value = hn::IfThenElseZero(hit, hn::LoadU(d, g + c));
      hn::StoreU(add ? value + hn::LoadU(d, dx + c) : value, d, dx + c);
    };
    ISOCHRON_FOR_LANES(T, n, body)
  }

  static void scaled_add(T* dx, const T* g, T factor, bool add, int64_t n) {
    const auto body = [=](auto d, int64_t c) HWY_ATTR {
      const auto value = hn::LoadU(d, g + c) * hn::Set(d, factor);
      hn::StoreU(add ? value + hn::LoadU(d, dx + c) : value, d, dx + c);
    };
    ISOCHRON_FOR_LANES(T, n, body)
  }

 private:
  template <class V>
  static HWY_INLINE auto integers(V v) {
    const hn::Rebind<int32_t, hn::DFromV<V>> di;
    if constexpr (sizeof(T) == 4) {
      return hn::ConvertTo(di, v);
    } else {
      return hn::DemoteTo(di, v);
    }
  }
  template <class D, class V>
  static HWY_INLINE hn::Vec<D> numbers(D d, V v) {
    if constexpr (sizeof(T) == 4) {
      return hn::ConvertTo(d, v);
    } else {
      return hn::PromoteTo(d, v);
    }
  }
};

template <typename T>
constexpr PoolingFunctions<T> kTable{Functions<T>::max, Functions<T>::scaled_sum, Functions<T>::scatter,
                                     Functions<T>::scaled_add};

const PoolingFunctions<float>* table_f32() { return &kTable<float>; }
const PoolingFunctions<double>* table_f64() { return &kTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(table_f32);
HWY_EXPORT(table_f64);

template <>
const PoolingFunctions<float>& pooling_functions<float>() {
  return *HWY_DYNAMIC_DISPATCH(table_f32)();
}
template <>
const PoolingFunctions<double>& pooling_functions<double>() {
  return *HWY_DYNAMIC_DISPATCH(table_f64)();
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
