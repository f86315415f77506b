// Sigmoid and tanh for recurrent cells: in f32 those of vector_math-inl.h with an approximate division, f64
// takes Highway's. Error at most 9 ULP in f32 (sigmoid below -87 is e^-87 at least), NaN goes through.
// Included once per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_
#undef ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_
#else
#define ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_
#endif

#include "isochron/ops/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

/// a / b, b finite and at least 1. On x86 in f32 by an approximate reciprocal and one step of Newton's, which
/// costs half of a division and errs by at most 2 ULP.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> quotient(D d, hwy::HWY_NAMESPACE::Vec<D> a,
                                               hwy::HWY_NAMESPACE::Vec<D> b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const auto r = hn::ApproximateReciprocal(b);
    return a * hn::MulAdd(r, hn::NegMulAdd(b, r, hn::Set(d, 1.0f)), r);
  }
#endif
  static_cast<void>(d);
  return a / b;
}

/// 1 / (1 + e^-x).
template <typename T>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<T>> sigmoid(
    hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<T>> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, T(1));
  const auto limit = hn::Set(d, sizeof(T) == 4 ? T(87) : T(700));
  const auto inside = hn::Neg(hn::Max(hn::Min(x, limit), hn::Neg(limit)));
  hn::Vec<decltype(d)> e;
  if constexpr (sizeof(T) == 4) {
    e = exp_f32(d, inside);
  } else {
    e = hn::Exp(d, inside);
  }
  return hn::IfThenElse(hn::IsNaN(x), x, quotient(d, one, one + e));
}

template <typename T>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<T>> tanh(
    hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<T>> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<T> d;
  const auto limit = hn::Set(d, sizeof(T) == 4 ? T(9.02) : T(20));
  const auto inside = hn::Max(hn::Min(x, limit), hn::Neg(limit));
  if constexpr (sizeof(T) == 8) {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, inside));
  } else {
    const auto ratio = tanh_ratio_f32(d, inside);
    const auto one = hn::Set(d, T(1));
    const auto y = hn::Max(hn::Min(quotient(d, ratio.numerator, ratio.denominator), one), hn::Neg(one));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
