// The vector functions of depthwise convolution.
#include "isochron/backends/cpu/convolution/depthwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/convolution/depthwise_functions.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/tails-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
struct DepthwiseVectors {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;

  static void weighted_sum(const T* const* rows, const T* const* weights, int64_t count, const T* bias, T* y,
                           int64_t n) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    int64_t c = 0;
    for (; c + 4 * lanes <= n; c += 4 * lanes) whole_vectors<4>(rows, weights, count, bias, y, c);
    for (; c + lanes <= n; c += lanes) whole_vectors<1>(rows, weights, count, bias, y, c);
    if (c == n) return;
    const D d;
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - c));
    V total = bias ? masked_load(mask, d, bias + c) : hn::Zero(d);
    for (int64_t k = 0; k < count; ++k) {
      total = hn::MulAdd(masked_load(mask, d, rows[k] + c), masked_load(mask, d, weights[k] + c), total);
    }
    masked_store(total, mask, d, y + c);
  }

  static void add_products(const T* x, int64_t x_step, const T* g, int64_t g_step, int64_t count, T* total,
                           int64_t n) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t c = 0;
    const auto whole = [&](const T* p) HWY_ATTR { return hn::LoadU(d, p); };
    for (; c + lanes <= n; c += lanes) {
      const V sum = products(whole, x ? x + c : nullptr, x_step, g + c, g_step, count);
      hn::StoreU(hn::LoadU(d, total + c) + sum, d, total + c);
    }
    if (c == n) return;
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - c));
    const auto part = [&](const T* p) HWY_ATTR { return masked_load(mask, d, p); };
    const V sum = products(part, x ? x + c : nullptr, x_step, g + c, g_step, count);
    masked_store(part(total + c) + sum, mask, d, total + c);
  }

 private:
  template <int kVectors>
  static HWY_INLINE void whole_vectors(const T* const* rows, const T* const* weights, int64_t count,
                                       const T* bias, T* y, int64_t c) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    V totals[kVectors];
    for (int i = 0; i < kVectors; ++i) totals[i] = bias ? hn::LoadU(d, bias + c + i * lanes) : hn::Zero(d);
    for (int64_t k = 0; k < count; ++k) {
      const T* row = rows[k] + c;
      const T* weight = weights[k] + c;
      for (int i = 0; i < kVectors; ++i) {
        totals[i] = hn::MulAdd(hn::LoadU(d, row + i * lanes), hn::LoadU(d, weight + i * lanes), totals[i]);
      }
    }
    for (int i = 0; i < kVectors; ++i) hn::StoreU(totals[i], d, y + c + i * lanes);
  }

  /// Uses four accumulators, because additions to a single one would wait for each other.
  template <class Load>
  static HWY_INLINE V products(Load load, const T* x, int64_t x_step, const T* g, int64_t g_step,
                               int64_t count) {
    const D d;
    const V one = hn::Set(d, T{1});
    V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      for (int64_t j = 0; j < 4; ++j) {
        const V factor = x ? load(x + (i + j) * x_step) : one;
        sums[j] = hn::MulAdd(factor, load(g + (i + j) * g_step), sums[j]);
      }
    }
    for (; i < count; ++i) {
      sums[0] = hn::MulAdd(x ? load(x + i * x_step) : one, load(g + i * g_step), sums[0]);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

template <typename T>
constexpr DepthwiseFunctions<T> kDepthwiseTable{DepthwiseVectors<T>::weighted_sum,
                                                DepthwiseVectors<T>::add_products};

const DepthwiseFunctions<float>* depthwise_table_f32() { return &kDepthwiseTable<float>; }
const DepthwiseFunctions<double>* depthwise_table_f64() { return &kDepthwiseTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(depthwise_table_f32);
HWY_EXPORT(depthwise_table_f64);

template <>
const DepthwiseFunctions<float>& depthwise_functions<float>() {
  return *HWY_DYNAMIC_DISPATCH(depthwise_table_f32)();
}
template <>
const DepthwiseFunctions<double>& depthwise_functions<double>() {
  return *HWY_DYNAMIC_DISPATCH(depthwise_table_f64)();
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
