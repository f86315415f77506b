// Vector loads and stores: of f32 from and to tensors of f32 or 16-bit floats, and of f64 from and to tensors
// of f64. 16-bit numbers are rounded to nearest, ties to even; NaN stays NaN. The bits are the same on every
// target, except that subnormal numbers may become 0. Included once per Highway target, hence no ordinary
// include guard.

#if defined(ISOCHRON_OPS_CPU_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_NARROW_INL_H_
#undef ISOCHRON_OPS_CPU_NARROW_INL_H_
#else
#define ISOCHRON_OPS_CPU_NARROW_INL_H_
#endif

#include "isochron/backends/cpu/common/bf16_pairs-inl.h"
#include "isochron/backends/cpu/common/tails-inl.h"
#include "isochron/core/tensor/dtype.h"

#ifndef ISOCHRON_OPS_CPU_NARROW_ONCE_
#define ISOCHRON_OPS_CPU_NARROW_ONCE_
namespace isochron::ops {
#if HWY_ARCH_X86
/// Whether the processor has instructions for bf16. This is checked for each vector, so it must be a
/// constant.
inline const bool kHasBf16Instructions = __builtin_cpu_supports("avx512bf16") != 0;
#endif
}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_whole(D d, const bfloat16* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<uint16_t, D> narrow;
  const hn::Rebind<uint32_t, D> bits;
  const auto half = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, half)));
}

template <class D>
HWY_INLINE void store_whole(D d, hwy::HWY_NAMESPACE::Vec<D> v, bfloat16* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<uint16_t, D> narrow;
#if ISOCHRON_BF16_PAIRS
  if constexpr (sizeof(v) == 64) {
    if (kHasBf16Instructions) {
      hn::StoreU(bf16_bits(v), narrow, reinterpret_cast<uint16_t*>(to));
      return;
    }
  }
#endif
  const hn::Rebind<uint32_t, D> bits;
  const hn::Rebind<int32_t, D> numbers;
  const auto u = hn::BitCast(bits, v);
  const auto upper = hn::ShiftRight<16>(u);
  const auto odd = hn::And(upper, hn::Set(bits, 1));
  const auto rounded = hn::ShiftRight<16>(u + hn::Set(bits, 0x7fff) + odd);
  const auto is_nan = hn::RebindMask(bits, hn::IsNaN(v));
  const auto result = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(bits, 0x40)), rounded);
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(numbers, result)), narrow, reinterpret_cast<uint16_t*>(to));
  static_cast<void>(d);
}

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_whole(D d, const float16* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kMasksMemory) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {  // no instruction for the conversion
    HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
    for (size_t i = 0; i < hn::Lanes(d); ++i) wide[i] = static_cast<float>(from[i]);
    return hn::Load(d, wide);
  }
}

template <class D>
HWY_INLINE void store_whole(D d, hwy::HWY_NAMESPACE::Vec<D> v, float16* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kMasksMemory) {
    const hn::Rebind<hwy::float16_t, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(v, d, wide);
    for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = float16(wide[i]);
  }
}

/// The first `lanes` numbers at `from`; 0 in the other lanes.
template <class D, typename E>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> load_numbers(D d, const E* from, size_t lanes) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (sizeof(E) > 2) {
    return load_lanes(d, from, lanes);
  } else {
    if (lanes == hn::Lanes(d)) return load_whole(d, from);
    HWY_ALIGN E part[HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(part, from, lanes * sizeof(E));
    return load_whole(d, static_cast<const E*>(part));
  }
}

template <class D, typename E>
HWY_INLINE void store_numbers(D d, hwy::HWY_NAMESPACE::Vec<D> v, E* to, size_t lanes) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (sizeof(E) > 2) {
    store_lanes(d, v, to, lanes);
  } else if (lanes == hn::Lanes(d)) {
    store_whole(d, v, to);
  } else {
    HWY_ALIGN E part[HWY_MAX_BYTES / sizeof(float)];
    store_whole(d, v, static_cast<E*>(part));
    std::memcpy(to, part, lanes * sizeof(E));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
