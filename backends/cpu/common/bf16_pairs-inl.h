// Two instructions of AVX512_BF16 for which Highway has no functions: products of bf16 pairs summed in f32,
// and rounding f32 to bf16. They are written as inline assembly, so that the surrounding code is compiled for
// plain AVX-512. Callers must first check that the processor has them. Like all of this extension, they treat
// subnormals as 0. Included once per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_BF16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_BF16_PAIRS_INL_H_
#undef ISOCHRON_OPS_CPU_BF16_PAIRS_INL_H_
#else
#define ISOCHRON_OPS_CPU_BF16_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

#include "isochron/backends/common/vector_target.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

#undef ISOCHRON_BF16_PAIRS
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
#define ISOCHRON_BF16_PAIRS 1

/// Whether this process may use these instructions.
inline bool multiplies_pairs() { return multiplies_in(DType::kBF16); }

/// sum + a0 b0 + a1 b1 in each lane. A lane of a or b holds two bf16 numbers, the first in the lower half.
HWY_INLINE hwy::HWY_NAMESPACE::Vec512<float> add_pair_products(hwy::HWY_NAMESPACE::Vec512<float> sum,
                                                               hwy::HWY_NAMESPACE::Vec512<uint32_t> a,
                                                               hwy::HWY_NAMESPACE::Vec512<uint32_t> b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}

/// The bits of x rounded to the nearest bf16, ties to even; NaN stays NaN.
HWY_INLINE hwy::HWY_NAMESPACE::Vec256<uint16_t> bf16_bits(hwy::HWY_NAMESPACE::Vec512<float> x) {
  hwy::HWY_NAMESPACE::Vec256<uint16_t> bits;
  asm("vcvtneps2bf16 %1, %0" : "=v"(bits.raw) : "v"(x.raw));
  return bits;
}

#else
#define ISOCHRON_BF16_PAIRS 0
inline bool multiplies_pairs() { return false; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
