// Sigmoid and tanh for recurrent cells: in f32 a polynomial exponential and a rational tanh, about half the
// work of Highway's general functions; f64 takes those. Relative error at most 4 ULP in f32 (sigmoid below
// -87 is e^-87 at least), NaN goes through. Included once per Highway target, hence no ordinary include
// guard.

#if defined(ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_
#undef ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_
#else
#define ISOCHRON_OPS_CPU_RECURRENT_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

/// e^x for |x| <= 87: 2^n e^r with n = round(x / ln 2), ln 2 in two parts, e^r by Cephes' polynomial.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> exp_f32(D d, hwy::HWY_NAMESPACE::Vec<D> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const auto n = hn::Round(x * hn::Set(d, 1.44269504088896341f));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::MulAdd(r, hn::Set(d, 1.9875691500e-4f), hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(p, r * r, r) + hn::Set(d, 1.0f);
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n) + hn::Set(di, 127));
  return p * hn::BitCast(d, exponent);
}

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

/// f32: x P(x^2) / Q(x^2), the minimax fit of degrees 4 and 4 on |x| <= 9.02 (error 2.1e-8 before rounding),
/// where tanh rounds to 1.
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
    const auto u = inside * inside;
    auto p = hn::MulAdd(u, hn::Set(d, 1.3319129793038633e-08f), hn::Set(d, 2.058352765464466e-05f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.0034940375958402133f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.13379720579512602f));
    p = hn::MulAdd(p, u, hn::Set(d, 0.9999999790455774f));
    auto q = hn::MulAdd(u, hn::Set(d, 7.762044470424057e-07f), hn::Set(d, 0.0003283097647784151f));
    q = hn::MulAdd(q, u, hn::Set(d, 0.025871084996730995f));
    q = hn::MulAdd(q, u, hn::Set(d, 0.46713035827763777f));
    q = hn::MulAdd(q, u, hn::Set(d, 1.0f));
    const auto one = hn::Set(d, T(1));
    const auto y = hn::Max(hn::Min(quotient(d, inside * p, q), one), hn::Neg(one));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
