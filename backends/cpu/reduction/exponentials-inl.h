// Exponentials of a row relative to its largest element. Included once per Highway target, hence no ordinary
// include guard.

#if defined(ISOCHRON_OPS_CPU_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_EXPONENTIALS_INL_H_
#undef ISOCHRON_OPS_CPU_EXPONENTIALS_INL_H_
#else
#define ISOCHRON_OPS_CPU_EXPONENTIALS_INL_H_
#endif

#include <cmath>
#include <limits>

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/tails-inl.h"
#include "isochron/backends/cpu/common/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Whether no element is +infinity or NaN.
template <typename T>
bool below_infinity(const T* x, size_t n) {
  const hn::ScalableTag<T> d;
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  bool below = true;
  each_vector(d, static_cast<int64_t>(n), [&](int64_t i, size_t lanes) HWY_ATTR {
    below = below && hn::AllTrue(d, hn::Lt(load_lanes(d, x + i, lanes), infinity));
  });
  return below;
}

/// The largest element of a row and sum_i e^(x_i - largest); the exponentials are written to `out` unless it
/// is null. Rows that contain NaN or +infinity, or only -infinity, are computed by the C library, which
/// defines their results.
template <typename T>
double exponentials(const T* x, T* out, size_t n, T* largest) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T lowest = std::numeric_limits<T>::lowest();
  auto most = hn::Set(d, lowest);
  auto probe = hn::Zero(d);  // sums 0 * x, which is NaN if x is NaN or infinite
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    most = hn::Max(most, v);
    probe = hn::MulAdd(v, hn::Zero(d), probe);
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    const auto v = masked_load(mask, d, x + i);
    most = hn::Max(most, hn::IfThenElse(mask, v, hn::Set(d, lowest)));
    probe = hn::MulAdd(v, hn::Zero(d), probe);
  }
  const T top = hn::GetLane(hn::MaxOfLanes(d, most));
  const bool finite = !std::isnan(hn::GetLane(hn::SumOfLanes(d, probe)));
  if (!finite && !(top > lowest && below_infinity(x, n))) {
    T real_top = x[0];
    for (size_t k = 1; k < n; ++k) real_top = std::isnan(x[k]) || x[k] > real_top ? x[k] : real_top;
    double sum = 0;
    for (size_t k = 0; k < n; ++k) {
      const T e = x[k] == real_top && std::isinf(real_top) && real_top < 0
                      ? std::numeric_limits<T>::quiet_NaN()
                      : std::exp(x[k] - real_top);
      if (out) out[k] = e;
      sum += static_cast<double>(e);
    }
    *largest = real_top;
    return sum;
  }
  const auto shift = hn::Set(d, top);
  auto total = hn::Zero(d);
  for (i = 0; i + lanes <= n; i += lanes) {
    const auto e = exp_from_below(d, hn::LoadU(d, x + i) - shift);
    if (out) hn::StoreU(e, d, out + i);
    total = total + e;
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    const auto e = hn::IfThenElseZero(mask, exp_from_below(d, masked_load(mask, d, x + i) - shift));
    if (out) masked_store(e, mask, d, out + i);
    total = total + e;
  }
  *largest = top;
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, total)));
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
