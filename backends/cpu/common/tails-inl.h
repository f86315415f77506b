// Loads and stores of the first lanes of a vector, and loops and sums over runs whose last vector isn't full.
// On instruction sets without masked memory access (SSE), Highway's masked functions access the whole vector,
// and require alignment; the functions here never access memory outside the mask, on any target. Included
// once per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_TAILS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_TAILS_INL_H_
#undef ISOCHRON_OPS_CPU_TAILS_INL_H_
#else
#define ISOCHRON_OPS_CPU_TAILS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

inline constexpr bool kMasksMemory = HWY_TARGET <= HWY_AVX2;  // better targets have lower numbers

/// Loads p[i] in the lanes of `mask`, which must be from FirstN; 0 in the other lanes.
template <class D, class M, typename T>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> masked_load(M mask, D d, const T* p) {
  if constexpr (kMasksMemory) {
    return hwy::HWY_NAMESPACE::MaskedLoad(mask, d, p);
  } else {
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
    std::memcpy(lanes, p, hwy::HWY_NAMESPACE::CountTrue(d, mask) * sizeof(T));
    return hwy::HWY_NAMESPACE::Load(d, lanes);
  }
}

/// Stores the lanes of `mask`, which must be from FirstN, to p.
template <class D, class V, class M, typename T>
HWY_INLINE void masked_store(V v, M mask, D d, T* p) {
  if constexpr (kMasksMemory) {
    hwy::HWY_NAMESPACE::BlendedStore(v, mask, d, p);
  } else {
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
    hwy::HWY_NAMESPACE::Store(v, d, lanes);
    std::memcpy(p, lanes, hwy::HWY_NAMESPACE::CountTrue(d, mask) * sizeof(T));
  }
}

/// The first `lanes` elements at `from`; 0 in the other lanes.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_lanes(D d, const hwy::HWY_NAMESPACE::TFromD<D>* from,
                                                 size_t lanes) {
  namespace hn = hwy::HWY_NAMESPACE;
  return lanes == hn::Lanes(d) ? hn::LoadU(d, from) : masked_load(hn::FirstN(d, lanes), d, from);
}
template <class D, class V>
HWY_INLINE void store_lanes(D d, V v, hwy::HWY_NAMESPACE::TFromD<D>* to, size_t lanes) {
  namespace hn = hwy::HWY_NAMESPACE;
  if (lanes == hn::Lanes(d)) {
    hn::StoreU(v, d, to);
  } else {
    masked_store(v, hn::FirstN(d, lanes), d, to);
  }
}

/// Calls body(first element, lanes) for each vector of a run of n elements; only the last may have fewer
/// lanes than a vector.
template <class D, class Body>
HWY_INLINE void each_vector(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hwy::HWY_NAMESPACE::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, static_cast<size_t>(lanes));
  if (i < n) body(i, static_cast<size_t>(n - i));
}

/// The number of elements that are summed in vector lanes before the sum is added to an f64.
inline constexpr int64_t kSumTile = 1024;

template <class D>
HWY_INLINE double sum_of_lanes(D d, hwy::HWY_NAMESPACE::Vec<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, v)));
}

/// The sum of term(first element, lanes) over all vectors of a run. Lanes beyond the end must be 0.
template <typename T, class Term>
HWY_INLINE double sum_of(int64_t count, Term term) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<T> d;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kSumTile) {
    auto sum = hn::Zero(d);
    each_vector(d, std::min(kSumTile, count - begin),
                [&](int64_t i, size_t lanes) HWY_ATTR { sum = sum + term(begin + i, lanes); });
    total += sum_of_lanes(d, sum);
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
