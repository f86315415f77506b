// Loads and stores of the first lanes of a vector. Highway's masked forms touch the whole vector, aligned,
// where the instruction set has none (SSE); these never touch what the mask leaves out, on any target.
// Included once per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_TAILS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_TAILS_INL_H_
#undef ISOCHRON_OPS_CPU_TAILS_INL_H_
#else
#define ISOCHRON_OPS_CPU_TAILS_INL_H_
#endif

#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

inline constexpr bool kMasksMemory = HWY_TARGET <= HWY_AVX2;  // better targets have lower numbers

/// p[i] in the lanes of `mask`, which must be FirstN; 0 in the others.
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

/// Stores the lanes of `mask`, which must be FirstN, to p.
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

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
