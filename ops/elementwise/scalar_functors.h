// The element functions of single numbers: what device code computes (backends/cuda/common/element_source.h),
// and where the CPU has no vectors for it (backends/cpu/elementwise/tile_functions_plain.cc). The float
// functions themselves are those of functors-inl.h, for which ScalarMath is the vocabulary. Compiled by NVRTC
// too, whose text it becomes: no headers of the library or the system there, and nothing that one of both
// compilers lacks.
//
// Errors: those of the C library on the CPU; on a device those of CUDA's, at most 2 units in the last place
// for what is used here, 4 for pow.
#pragma once

#ifdef __CUDACC_RTC__
#define ISOCHRON_INLINE __device__ __forceinline__
#define ISOCHRON_MATH(name) ::name
#else
#include <cmath>
#include <cstdint>
#define ISOCHRON_INLINE inline
#define ISOCHRON_MATH(name) std::name
#endif
#define ISOCHRON_SCALAR static ISOCHRON_INLINE

namespace isochron {
namespace ops {
namespace element {

/// See functors-inl.h; a value and a truth in place of vectors and masks.
template <typename T>
struct ScalarMath {
  using V = T;
  using Mask = bool;
  static constexpr bool kF32 = sizeof(T) == 4;

  ISOCHRON_SCALAR T set(double x) { return static_cast<T>(x); }
  ISOCHRON_SCALAR T neg(T x) { return -x; }
  ISOCHRON_SCALAR T abs(T x) { return ISOCHRON_MATH(fabs)(x); }
  ISOCHRON_SCALAR T sqrt(T x) { return ISOCHRON_MATH(sqrt)(x); }
  ISOCHRON_SCALAR T floor(T x) { return ISOCHRON_MATH(floor)(x); }
  ISOCHRON_SCALAR T ceil(T x) { return ISOCHRON_MATH(ceil)(x); }
  ISOCHRON_SCALAR T round(T x) { return ISOCHRON_MATH(rint)(x); }  // halves to even
  ISOCHRON_SCALAR T trunc(T x) { return ISOCHRON_MATH(trunc)(x); }
  ISOCHRON_SCALAR T mul_add(T a, T b, T c) { return ISOCHRON_MATH(fma)(a, b, c); }
  ISOCHRON_SCALAR T neg_mul_add(T a, T b, T c) { return ISOCHRON_MATH(fma)(-a, b, c); }
  ISOCHRON_SCALAR T mul_sub(T a, T b, T c) { return ISOCHRON_MATH(fma)(a, b, -c); }
  ISOCHRON_SCALAR T max(T a, T b) { return a > b ? a : b; }
  ISOCHRON_SCALAR bool less(T a, T b) { return a < b; }
  ISOCHRON_SCALAR bool is_nan(T x) { return x != x; }
  ISOCHRON_SCALAR T select(bool m, T yes, T no) { return m ? yes : no; }
  ISOCHRON_SCALAR T clamp(T x, double limit) { return at_least(x < set(limit) ? x : set(limit), -limit); }
  ISOCHRON_SCALAR T at_least(T x, double low) { return x < set(low) ? set(low) : x; }
  ISOCHRON_SCALAR T exp(T x) { return ISOCHRON_MATH(exp)(x); }
  ISOCHRON_SCALAR T expm1(T x) { return ISOCHRON_MATH(expm1)(x); }
  ISOCHRON_SCALAR T log(T x) { return ISOCHRON_MATH(log)(x); }
  ISOCHRON_SCALAR T log1p(T x) { return ISOCHRON_MATH(log1p)(x); }
  ISOCHRON_SCALAR T log1p_unit(T x) { return ISOCHRON_MATH(log1p)(x); }
  ISOCHRON_SCALAR T sin(T x) { return ISOCHRON_MATH(sin)(x); }
  ISOCHRON_SCALAR T cos(T x) { return ISOCHRON_MATH(cos)(x); }
  ISOCHRON_SCALAR T tanh(T x) { return ISOCHRON_MATH(tanh)(x); }
  ISOCHRON_SCALAR T sigmoid(T x) { return T(1) / (T(1) + ISOCHRON_MATH(exp)(-x)); }
  ISOCHRON_SCALAR T erf(T x) { return ISOCHRON_MATH(erf)(x); }

  struct Normal {
    T cumulative;
    T density;
  };
  static constexpr double kNormalRange = kF32 ? 13 : 37.5;
  ISOCHRON_SCALAR Normal normal(T x) {
    const T a = x < set(-kNormalRange) ? set(-kNormalRange) : x > set(kNormalRange) ? set(kNormalRange) : x;
    return {T(0.5) * ISOCHRON_MATH(erfc)(set(-0.70710678118654752440) * a),
            set(0.39894228040143267794) * ISOCHRON_MATH(exp)(T(-0.5) * a * a)};
  }
};

template <typename T>
struct Comparisons {
  ISOCHRON_SCALAR bool equal(T a, T b) { return a == b; }
  ISOCHRON_SCALAR bool not_equal(T a, T b) { return a != b; }
  ISOCHRON_SCALAR bool less(T a, T b) { return a < b; }
  ISOCHRON_SCALAR bool less_equal(T a, T b) { return a <= b; }
  ISOCHRON_SCALAR bool greater(T a, T b) { return a > b; }
  ISOCHRON_SCALAR bool greater_equal(T a, T b) { return a >= b; }
};

/// What functors-inl.h leaves out.
template <typename T>
struct FloatRest : Comparisons<T> {
  ISOCHRON_SCALAR bool is_nan(T a) { return a != a; }
  ISOCHRON_SCALAR bool is_finite(T a) { return a - a == T(0); }
  ISOCHRON_SCALAR T pow(T a, T b) { return ISOCHRON_MATH(pow)(a, b); }
  ISOCHRON_SCALAR T fmod(T a, T b) { return ISOCHRON_MATH(fmod)(a, b); }
  ISOCHRON_SCALAR T atan2(T a, T b) { return ISOCHRON_MATH(atan2)(a, b); }
  ISOCHRON_SCALAR T tan(T a) { return ISOCHRON_MATH(tan)(a); }
  ISOCHRON_SCALAR T asin(T a) { return ISOCHRON_MATH(asin)(a); }
  ISOCHRON_SCALAR T acos(T a) { return ISOCHRON_MATH(acos)(a); }
  ISOCHRON_SCALAR T atan(T a) { return ISOCHRON_MATH(atan)(a); }
  ISOCHRON_SCALAR T sinh(T a) { return ISOCHRON_MATH(sinh)(a); }
  ISOCHRON_SCALAR T cosh(T a) { return ISOCHRON_MATH(cosh)(a); }
  ISOCHRON_SCALAR T asinh(T a) { return ISOCHRON_MATH(asinh)(a); }
  ISOCHRON_SCALAR T acosh(T a) { return ISOCHRON_MATH(acosh)(a); }
  ISOCHRON_SCALAR T atanh(T a) { return ISOCHRON_MATH(atanh)(a); }
  ISOCHRON_SCALAR T lgamma(T a) {
#ifdef __CUDACC_RTC__
    return ::lgamma(a);
#else
    int sign = 0;  // std::lgamma writes it to a global variable, which threads would share
    if constexpr (sizeof(T) == 4) {
      return ::lgammaf_r(a, &sign);
    } else {
      return ::lgamma_r(a, &sign);
    }
#endif
  }
};

template <typename T>
struct WholeTraits;
template <>
struct WholeTraits<unsigned char> {
  using Unsigned = unsigned char;
  static constexpr bool kSigned = false;
};
template <>
struct WholeTraits<int> {
  using Unsigned = unsigned;
  static constexpr bool kSigned = true;
};
template <>
struct WholeTraits<long> {
  using Unsigned = unsigned long;
  static constexpr bool kSigned = true;
};
template <>
struct WholeTraits<long long> {
  using Unsigned = unsigned long long;
  static constexpr bool kSigned = true;
};

/// Integers wrap as unsigned (signed overflow is undefined), and x / 0 and x mod 0 are 0, as in NumPy.
template <typename T>
struct Whole : Comparisons<T> {
  using U = typename WholeTraits<T>::Unsigned;
  static constexpr bool kSigned = WholeTraits<T>::kSigned;

  ISOCHRON_SCALAR T copy(T a) { return a; }
  ISOCHRON_SCALAR T floor(T a) { return a; }
  ISOCHRON_SCALAR T ceil(T a) { return a; }
  ISOCHRON_SCALAR T round(T a) { return a; }
  ISOCHRON_SCALAR T trunc(T a) { return a; }
  ISOCHRON_SCALAR T add(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
  ISOCHRON_SCALAR T sub(T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }
  ISOCHRON_SCALAR T mul(T a, T b) {
    return static_cast<T>(static_cast<unsigned long long>(static_cast<U>(a)) * static_cast<U>(b));
  }
  ISOCHRON_SCALAR T div(T a, T b) {
    if (b == 0) return 0;
    if constexpr (kSigned) {
      if (b == -1) return sub(0, a);
    }
    return static_cast<T>(a / b);
  }
  ISOCHRON_SCALAR T fmod(T a, T b) {
    if (b == 0) return 0;
    if constexpr (kSigned) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
  ISOCHRON_SCALAR T pow(T base, T exponent) {
    if constexpr (kSigned) {
      if (exponent < 0) return base == 1 ? 1 : (base == -1 ? (exponent % 2 ? -1 : 1) : 0);
    }
    T result = 1;
    for (U e = static_cast<U>(exponent); e > 0; e = static_cast<U>(e >> 1)) {
      if (e & 1) result = mul(result, base);
      base = mul(base, base);
    }
    return result;
  }
  ISOCHRON_SCALAR T neg(T a) { return sub(0, a); }
  ISOCHRON_SCALAR T abs(T a) {
    if constexpr (kSigned) {
      return a < 0 ? neg(a) : a;
    } else {
      return a;
    }
  }
  ISOCHRON_SCALAR T sign(T a) {
    if constexpr (kSigned) {
      return static_cast<T>((a > 0) - (a < 0));
    } else {
      return a > 0;
    }
  }
  ISOCHRON_SCALAR T square(T a) { return mul(a, a); }
  ISOCHRON_SCALAR T relu(T a) { return maximum(a, 0); }
  ISOCHRON_SCALAR T relu6(T a) { return minimum(maximum(a, 0), 6); }
  ISOCHRON_SCALAR T maximum(T a, T b) { return a < b ? b : a; }
  ISOCHRON_SCALAR T minimum(T a, T b) { return b < a ? b : a; }
  ISOCHRON_SCALAR T clip(T a, T low, T high) { return minimum(maximum(a, low), high); }
  ISOCHRON_SCALAR T mul_add(T a, T b, T c) { return add(mul(a, b), c); }
};

struct Truth : Comparisons<bool> {
  ISOCHRON_SCALAR bool copy(bool a) { return a; }
  ISOCHRON_SCALAR bool logical_not(bool a) { return !a; }
  ISOCHRON_SCALAR bool logical_and(bool a, bool b) { return a && b; }
  ISOCHRON_SCALAR bool logical_or(bool a, bool b) { return a || b; }
  ISOCHRON_SCALAR bool minimum(bool a, bool b) { return a && b; }
  ISOCHRON_SCALAR bool maximum(bool a, bool b) { return a || b; }
};

}  // namespace element
}  // namespace ops
}  // namespace isochron
