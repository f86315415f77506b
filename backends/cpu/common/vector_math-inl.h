// The functions that functors-inl.h uses, on Highway vectors. They call Highway's functions if these are
// accurate enough on their whole domain; the others, and those that dominate the running time of networks,
// are implemented here. The largest errors are stated in ops/elementwise/element_accuracy.h. Included once
// per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_VECTOR_MATH_INL_H_
#undef ISOCHRON_OPS_CPU_VECTOR_MATH_INL_H_
#else
#define ISOCHRON_OPS_CPU_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <limits>

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// max(x, low) and min(x, high). NaN stays NaN, even on instruction sets whose maximum would drop it.
template <class D>
HWY_INLINE hn::Vec<D> at_least(D d, hn::Vec<D> x, double low) {
  const auto y = hn::Max(hn::Set(d, static_cast<hn::TFromD<D>>(low)), x);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR  // returns the second operand if either is NaN
  return y;
#else
  return hn::IfThenElse(hn::IsNaN(x), x, y);
#endif
}
template <class D>
HWY_INLINE hn::Vec<D> at_most(D d, hn::Vec<D> x, double high) {
  const auto y = hn::Min(hn::Set(d, static_cast<hn::TFromD<D>>(high)), x);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return y;
#else
  return hn::IfThenElse(hn::IsNaN(x), x, y);
#endif
}

template <class D>
struct NearestPower {
  hn::Vec<D> n;
  hn::Vec<D> power;
};
/// n = round(x scale) and 2^(n - kHalvings), f32. n is rounded by adding a number whose unit in the last
/// place is 1. That number also contains the exponent's bias, so the bits of the sum, once shifted, are those
/// of the power.
template <int kHalvings, class D>
HWY_INLINE NearestPower<D> nearest_power(D d, hn::Vec<D> x, hn::Vec<D> scale) {
  const hn::RebindToSigned<D> di;
  const auto rounder = hn::Set(d, 12582912.0f + 127.0f - kHalvings);  // 1.5 * 2^23 and the bias
  const auto biased = hn::MulAdd(x, scale, rounder);
  return {biased - rounder, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, biased)))};
}

/// e^x 2^-kHalvings for |x - kHalvings ln 2| <= 88.3; results below e^-87.6 become 0; NaN stays. Computed as
/// 2^n e^r with n = round(x / ln 2), ln 2 in two parts, and e^r by the minimax polynomial of degree 6 on |r|
/// <= ln 2 / 2 (relative error 3e-9 before rounding).
template <int kHalvings = 0, class D>
HWY_INLINE hn::Vec<D> exp_f32(D d, hn::Vec<D> x) {
  const auto [n, power] = nearest_power<kHalvings>(d, x, hn::Set(d, 1.44269504088896341f));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::MulAdd(r, hn::Set(d, 0.0013814540579915047f), hn::Set(d, 0.00836874544620514f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.04166838899254799f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666652113199234f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.4999999403953552f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return p * power;
}
/// e^x for x <= 88.3; as above, 0 for x below -87.6, and NaN stays.
template <class D>
HWY_INLINE hn::Vec<D> exp_from_below(D d, hn::Vec<D> x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return exp_f32(d, at_least(d, x, -88.3));
  } else {
    return hn::Exp(d, x);
  }
}

/// 1 / x for finite x of at least 1. With AVX-512 in f32, a 14-bit approximation and one Newton step are
/// used, which cost half as much as a division and have an error of at most 1 ULP.
template <class D>
HWY_INLINE hn::Vec<D> reciprocal(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>(1));
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const auto r = hn::ApproximateReciprocal(x);
    return hn::MulAdd(r, hn::NegMulAdd(x, r, one), r);
  }
#endif
  return one / x;
}
/// a / b for finite b of at least 1, with an error of at most 2 ULP.
template <class D>
HWY_INLINE hn::Vec<D> quotient(D d, hn::Vec<D> a, hn::Vec<D> b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4) return a * reciprocal(d, b);
#endif
  static_cast<void>(d);
  return a / b;
}

template <class D>
struct Ratio {
  hn::Vec<D> numerator;
  hn::Vec<D> denominator;  // at least 1
};
/// tanh as x P(x^2) / Q(x^2), the minimax fit of degrees 4 and 4 on |x| <= 9.02 (error 2.1e-8 before
/// rounding), where tanh rounds to 1.
template <class D>
HWY_INLINE Ratio<D> tanh_ratio_f32(D d, hn::Vec<D> x) {
  const auto u = x * x;
  auto p = hn::MulAdd(u, hn::Set(d, 1.3319129793038633e-08f), hn::Set(d, 2.058352765464466e-05f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0034940375958402133f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.13379720579512602f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.9999999790455774f));
  auto q = hn::MulAdd(u, hn::Set(d, 7.762044470424057e-07f), hn::Set(d, 0.0003283097647784151f));
  q = hn::MulAdd(q, u, hn::Set(d, 0.025871084996730995f));
  q = hn::MulAdd(q, u, hn::Set(d, 0.46713035827763777f));
  q = hn::MulAdd(q, u, hn::Set(d, 1.0f));
  return {x * p, q};
}

template <typename T>
struct VectorMath {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Mask = hn::Mask<D>;
  static constexpr D d{};
  static constexpr bool kF32 = sizeof(T) == 4;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  static HWY_INLINE V set(double x) { return hn::Set(D(), static_cast<T>(x)); }
  static HWY_INLINE V neg(V x) { return hn::Neg(x); }
  static HWY_INLINE V abs(V x) { return hn::Abs(x); }
  static HWY_INLINE V sqrt(V x) { return hn::Sqrt(x); }
  static HWY_INLINE V floor(V x) { return hn::Floor(x); }
  static HWY_INLINE V ceil(V x) { return hn::Ceil(x); }
  static HWY_INLINE V round(V x) { return hn::Round(x); }
  static HWY_INLINE V trunc(V x) { return hn::Trunc(x); }
  static HWY_INLINE V mul_add(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V neg_mul_add(V a, V b, V c) { return hn::NegMulAdd(a, b, c); }
  static HWY_INLINE V mul_sub(V a, V b, V c) { return hn::MulSub(a, b, c); }
  /// The maximum; if `b` is NaN, the result is NaN.
  static HWY_INLINE V max(V a, V b) { return hn::Max(a, b); }
  static HWY_INLINE Mask less(V a, V b) { return hn::Lt(a, b); }
  static HWY_INLINE Mask is_nan(V x) { return hn::IsNaN(x); }  // hn::Ne is an ordered comparison
  static HWY_INLINE V select(Mask m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
  /// Clamps x to [-limit, limit]; NaN stays.
  static HWY_INLINE V clamp(V x, double limit) { return at_least(at_most(x, limit), -limit); }
  static HWY_INLINE V at_least(V x, double low) { return ops::HWY_NAMESPACE::at_least(D(), x, low); }
  static HWY_INLINE V at_most(V x, double high) { return ops::HWY_NAMESPACE::at_most(D(), x, high); }

  static HWY_INLINE V exp(V x) {
    constexpr double kLargest = kF32 ? 88.72283905206835 : 709.782712893384;
    const V bounded = at_most(x, kLargest);
    V inside;
    if constexpr (kF32) {
      const V half = exp_f32<1>(D(), at_least(bounded, -87.5));
      inside = half + half;
    } else {
      inside = short_exp(bounded);
    }
    return select(less(set(kLargest), x), set(kInfinity), inside);
  }
  /// e^x; x must be NaN or |x| <= kShortExp.
  static constexpr double kShortExp = kF32 ? 88.3 : 709.0;
  static HWY_INLINE V short_exp(V x) {
    if constexpr (kF32) {
      return exp_f32(D(), x);
    } else {
      return select(is_nan(x), x, hn::Exp(D(), x));
    }
  }
  static HWY_INLINE V expm1(V x) {
    const V largest = set(kF32 ? 88.72283905206835 : 709.782712893384);
    const V inside = hn::Expm1(D(), hn::Min(x, largest));
    const V signed_zero = select(hn::Eq(x, set(0)), x, inside);
    return select(is_nan(x), x, select(less(largest, x), set(kInfinity), signed_zero));
  }
  static HWY_INLINE V log(V x) { return edges(x, x, hn::Log(D(), x)); }
  static HWY_INLINE V log1p(V x) {
    const V y = x + set(1);
    return edges(x, y, hn::Log1p(D(), x));
  }
  /// log(1 + x) for x in [0, 1].
  static HWY_INLINE V log1p_unit(V x) { return hn::Log1p(D(), x); }
  /// `inside`, except for the special values of a logarithm: y = 0, y < 0, infinity, NaN.
  static HWY_INLINE V edges(V x, V y, V inside) {
    V result = select(hn::Eq(y, set(0)), set(-kInfinity), inside);
    result = select(less(y, set(0)), set(kNan), result);
    result = select(hn::Eq(y, set(kInfinity)), set(kInfinity), result);
    return select(is_nan(x), x, result);
  }
  static HWY_INLINE V sin(V x) {
    const V near = select(hn::Eq(x, set(0)), x, clamp(hn::Sin(D(), x), 1));  // -0 stays
    return hn::AllTrue(D(), within_reduction(x)) ? near : far_wave(x, near, std::sin);
  }
  static HWY_INLINE V cos(V x) {
    const V near = clamp(hn::Cos(D(), x), 1);
    return hn::AllTrue(D(), within_reduction(x)) ? near : far_wave(x, near, std::cos);
  }
  /// The lanes in which Highway's range reduction by multiples of pi is accurate enough.
  static HWY_INLINE Mask within_reduction(V x) { return hn::Le(hn::Abs(x), set(kLargestReduced)); }
  static constexpr double kLargestReduced = 39000;
  /// `near`, except in lanes where `x` is outside that range or infinite or NaN: there the C library's
  /// `function` is used.
  static HWY_NOINLINE V far_wave(V x, V near, T (*function)(T)) {
    HWY_ALIGN T inputs[HWY_MAX_BYTES / sizeof(T)];
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(x, D(), inputs);
    hn::Store(near, D(), lanes);
    for (size_t i = 0; i < hn::Lanes(D()); ++i) {
      if (!(std::abs(inputs[i]) <= static_cast<T>(kLargestReduced))) lanes[i] = function(inputs[i]);
    }
    return hn::Load(D(), lanes);
  }
  static HWY_INLINE V tanh(V x) {
    const V y = unbounded_tanh(x);
    return kF32 ? clamp(y, 1) : y;
  }
  /// tanh with an error of at most 7 ULP in f32, so a result may exceed 1.
  static HWY_INLINE V unbounded_tanh(V x) {
    if constexpr (kF32) {
      const Ratio<D> ratio = tanh_ratio_f32(D(), clamp(x, 9.02));
      return quotient(D(), ratio.numerator, ratio.denominator);
    } else {
      return select(is_nan(x), x, hn::Tanh(D(), clamp(x, 20)));
    }
  }
  /// 1 / (1 + e^-x).
  static HWY_INLINE V sigmoid(V x) {
    const V inside = ops::HWY_NAMESPACE::reciprocal(D(), set(1) + short_exp(clamp(neg(x), kShortExp)));
    return select(less(x, set(-kShortExp)), set(0), inside);
  }
  /// f32: x P(x^2) / Q(x^2), fitted by iteratively reweighted least squares to a relative error of 2.1e-8
  /// below 3.9; from there on erf is 1 in f32. f64: calls the C library for each lane.
  static HWY_INLINE V erf(V x) {
    if constexpr (kF32) {
      return erf_f32(x);
    } else {
      HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
      hn::Store(x, D(), lanes);
      for (size_t i = 0; i < hn::Lanes(D()); ++i) lanes[i] = std::erf(lanes[i]);
      return hn::Load(D(), lanes);
    }
  }
  static HWY_INLINE V erf_f32(V x) {
    const V t = x * x;
    V p = set(2.02590002e-06);
    p = hn::MulAdd(p, t, set(0.000284684354));
    p = hn::MulAdd(p, t, set(0.00380808274));
    p = hn::MulAdd(p, t, set(0.0528751982));
    p = hn::MulAdd(p, t, set(0.191548711));
    p = hn::MulAdd(p, t, set(1.12837914));
    V q = set(3.78315396e-05);
    q = hn::MulAdd(q, t, set(0.00117070363));
    q = hn::MulAdd(q, t, set(0.0150549333));
    q = hn::MulAdd(q, t, set(0.114558929));
    q = hn::MulAdd(q, t, set(0.503088302));
    q = hn::MulAdd(q, t, set(1));
    const V y = x * p / q;
    const V one = hn::CopySign(set(1), x);
    const Mask saturated = hn::Or(hn::Ge(hn::Abs(x), set(3.9)), hn::Gt(hn::Abs(y), set(1)));
    return hn::IfThenElse(saturated, one, y);  // NaN stays
  }

  /// The standard normal distribution. Beyond kNormalRange, the density keeps its value at the bound.
  struct Normal {
    V cumulative;
    V density;
  };
  static constexpr double kNormalRange = kF32 ? 13 : 37.5;
  static HWY_INLINE Normal normal(V x) {
    const V a = at_most(hn::Abs(x), kNormalRange);
    const V e = short_exp(set(-0.5) * a * a);
    const V density = set(0.39894228040143267794) * e;
    if constexpr (kF32) {
      const V tail = e * tail_ratio_f32(a);
      return {select(less(x, set(0)), tail, set(1) - tail), density};
    } else {
      HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
      hn::Store(x, D(), lanes);
      for (size_t i = 0; i < hn::Lanes(D()); ++i)
        lanes[i] = 0.5 * std::erfc(-0.70710678118654752440 * lanes[i]);
      return {hn::Load(D(), lanes), density};
    }
  }
  /// Phi(-a) e^(a^2 / 2) as P(a) / Q(a) for a in [0, 13], fitted by iteratively reweighted least squares to a
  /// relative error of 5e-9.
  static HWY_INLINE V tail_ratio_f32(V a) {
    V p = set(0.004011743110066573);
    p = hn::MulAdd(p, a, set(0.03992706275680641));
    p = hn::MulAdd(p, a, set(0.18113690213383257));
    p = hn::MulAdd(p, a, set(0.43545615219377304));
    p = hn::MulAdd(p, a, set(0.5000000024387519));
    V q = set(0.010055803291982617);
    q = hn::MulAdd(q, a, set(0.10008977144848127));
    q = hn::MulAdd(q, a, set(0.4639319769589323));
    q = hn::MulAdd(q, a, set(1.1937772637212505));
    q = hn::MulAdd(q, a, set(1.6687972174050485));
    q = hn::MulAdd(q, a, set(1));
    return quotient(D(), p, q);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
