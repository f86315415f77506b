// Tile functions: floats by Highway for each instruction set, dispatched at run time; the rest in plain loops
// (tile_functions_plain.cc).
#include "isochron/ops/cpu/tile_functions.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/tile_functions.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "isochron/ops/cpu/tails-inl.h"
#include "isochron/ops/functors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using graph::ElementOp;
using graph::ReduceKind;

/// The vocabulary of functors-inl.h over Highway vectors of T.
template <typename T>
struct VectorMath {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Mask = hn::Mask<D>;
  static constexpr D d{};
  static HWY_INLINE V set(double x) { return hn::Set(D(), static_cast<T>(x)); }
  static HWY_INLINE V neg(V x) { return hn::Neg(x); }
  static HWY_INLINE V abs(V x) { return hn::Abs(x); }
  static HWY_INLINE V sqrt(V x) { return hn::Sqrt(x); }
  static HWY_INLINE V floor(V x) { return hn::Floor(x); }
  static HWY_INLINE V ceil(V x) { return hn::Ceil(x); }
  static HWY_INLINE V round(V x) { return hn::Round(x); }
  static HWY_INLINE V trunc(V x) { return hn::Trunc(x); }
  static HWY_INLINE V mul_add(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE Mask less(V a, V b) { return hn::Lt(a, b); }
  static HWY_INLINE Mask is_nan(V x) { return hn::IsNaN(x); }  // hn::Ne is an ordered comparison
  static HWY_INLINE V select(Mask m, V yes, V no) { return hn::IfThenElse(m, yes, no); }
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  /// Highway's exponential is defined up to 104 (f32) and 706 (f64).
  static HWY_INLINE V exp(V x) {
    const double largest = sizeof(T) == 4 ? 88.72283905206835 : 709.782712893384;
    const V half = hn::Exp(D(), hn::Min(x, set(largest)) * set(0.5));
    const V whole = sizeof(T) == 4
                        ? hn::Exp(D(), hn::Min(x, set(largest)))
                        : select(less(set(700), x), half * half, hn::Exp(D(), hn::Min(x, set(700))));
    return select(is_nan(x), x, select(less(set(largest), x), set(kInfinity), whole));
  }
  static HWY_INLINE V expm1(V x) {
    const double largest = sizeof(T) == 4 ? 88.0 : 700.0;
    const V inside = hn::Expm1(D(), hn::Max(hn::Min(x, set(largest)), set(-largest)));
    const V signed_zero = select(hn::Eq(x, set(0)), x, inside);
    return select(is_nan(x), x, select(less(set(largest), x), exp(x), signed_zero));
  }
  static HWY_INLINE V log(V x) { return edges(x, x, hn::Log(D(), x)); }
  static HWY_INLINE V log1p(V x) {
    const V y = x + set(1);
    const V inside = hn::Log1p(D(), hn::Max(x, set(-1.0 + 1e-7)));
    const V near = select(less(x, set(-1.0 + 1e-6)), log(y), inside);
    return edges(x, y, near);
  }
  /// Logarithm's special values: y = 0, y < 0, infinity, NaN.
  static HWY_INLINE V edges(V x, V y, V inside) {
    V result = select(hn::Eq(y, set(0)), set(-kInfinity), inside);
    result = select(less(y, set(0)), set(kNan), result);
    result = select(hn::Eq(y, set(kInfinity)), set(kInfinity), result);
    return select(is_nan(x), x, result);
  }
  static HWY_INLINE V sin(V x) { return select(is_infinite(x), set(kNan), hn::Sin(D(), x)); }
  static HWY_INLINE V cos(V x) { return select(is_infinite(x), set(kNan), hn::Cos(D(), x)); }
  static HWY_INLINE Mask is_infinite(V x) { return hn::Eq(hn::Abs(x), set(kInfinity)); }
  static HWY_INLINE V tanh(V x) {
    const V inside = hn::Tanh(D(), hn::Max(hn::Min(x, set(20)), set(-20)));
    return select(is_nan(x), x, inside);
  }
  /// f32: x P(x^2) / Q(x^2), fitted by iteratively reweighted least squares to a relative error of 2.1e-8
  /// below 3.9, from where on it is 1 in f32. f64: the C library's, lane by lane.
  static HWY_INLINE V erf(V x) {
    if constexpr (sizeof(T) == 8) {
      HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
      hn::Store(x, D(), lanes);
      for (size_t i = 0; i < hn::Lanes(D()); ++i) lanes[i] = std::erf(lanes[i]);
      return hn::Load(D(), lanes);
    } else {
      return erf_f32(x);
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
    const V one = hn::CopySign(set(1), x);
    return hn::IfThenElse(hn::Ge(hn::Abs(x), set(3.9)), one, x * p / q);  // NaN stays
  }
};

template <typename T, typename F>
HWY_INLINE void unary_loop(void* dst_bytes, const void* a_bytes, int64_t count, F f) {
  using D = hn::ScalableTag<T>;
  const D d;
  T* dst = static_cast<T*>(dst_bytes);
  const T* a = static_cast<const T*>(a_bytes);
  const size_t n = static_cast<size_t>(count);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i)), d, dst + i);
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    masked_store(f(masked_load(mask, d, a + i)), mask, d, dst + i);
  }
}

template <typename T, typename F>
HWY_INLINE void binary_loop(void* dst_bytes, const void* a_bytes, const void* b_bytes, int64_t count, F f) {
  using D = hn::ScalableTag<T>;
  const D d;
  T* dst = static_cast<T*>(dst_bytes);
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  const size_t n = static_cast<size_t>(count);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, dst + i);
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    masked_store(f(masked_load(mask, d, a + i), masked_load(mask, d, b + i)), mask, d, dst + i);
  }
}

template <typename T, typename F>
HWY_INLINE void ternary_loop(void* dst_bytes, const void* a_bytes, const void* b_bytes, const void* c_bytes,
                             int64_t count, F f) {
  using D = hn::ScalableTag<T>;
  const D d;
  T* dst = static_cast<T*>(dst_bytes);
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  const T* c = static_cast<const T*>(c_bytes);
  const size_t n = static_cast<size_t>(count);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, dst + i);
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    masked_store(f(masked_load(mask, d, a + i), masked_load(mask, d, b + i), masked_load(mask, d, c + i)),
                 mask, d, dst + i);
  }
}

// Named functions rather than lambdas, so that each carries its target's attributes.
#define ISOCHRON_UNARY(name)                                                                 \
  template <typename T>                                                                      \
  void name##_tile(void* dst, const void* a, const void*, const void*, int64_t n) {          \
    using V = typename VectorMath<T>::V;                                                     \
    unary_loop<T>(dst, a, n, [](V x) HWY_ATTR { return Functors<VectorMath<T>>::name(x); }); \
  }
#define ISOCHRON_BINARY(name)                                                                            \
  template <typename T>                                                                                  \
  void name##_tile(void* dst, const void* a, const void* b, const void*, int64_t n) {                    \
    using V = typename VectorMath<T>::V;                                                                 \
    binary_loop<T>(dst, a, b, n, [](V x, V y) HWY_ATTR { return Functors<VectorMath<T>>::name(x, y); }); \
  }
#define ISOCHRON_TERNARY(name)                                                                      \
  template <typename T>                                                                             \
  void name##_tile(void* dst, const void* a, const void* b, const void* c, int64_t n) {             \
    using V = typename VectorMath<T>::V;                                                            \
    ternary_loop<T>(dst, a, b, c, n,                                                                \
                    [](V x, V y, V z) HWY_ATTR { return Functors<VectorMath<T>>::name(x, y, z); }); \
  }
// clang-format off
#define ISOCHRON_FLOAT_OPS(U, B, T) \
  U(copy, kCopy) U(neg, kNeg) U(abs, kAbs) U(sign, kSign) U(square, kSquare) U(sqrt, kSqrt) \
  U(rsqrt, kRsqrt) U(reciprocal, kReciprocal) U(exp, kExp) U(expm1, kExpm1) U(log, kLog) \
  U(log1p, kLog1p) U(sin, kSin) U(cos, kCos) U(tanh, kTanh) U(sigmoid, kSigmoid) U(erf, kErf) \
  U(relu, kRelu) U(relu6, kRelu6) U(softplus, kSoftplus) U(silu, kSilu) U(gelu, kGelu) \
  U(gelu_tanh, kGeluTanh) U(floor, kFloor) U(ceil, kCeil) U(round, kRound) U(trunc, kTrunc) \
  B(add, kAdd) B(sub, kSub) B(mul, kMul) B(div, kDiv) B(maximum, kMaximum) B(minimum, kMinimum) \
  B(relu_grad, kReluGrad) B(gelu_grad, kGeluGrad) T(clip, kClip) T(mul_add, kMulAdd)
// clang-format on
#define U(name, id) ISOCHRON_UNARY(name)
#define B(name, id) ISOCHRON_BINARY(name)
#define T3(name, id) ISOCHRON_TERNARY(name)
ISOCHRON_FLOAT_OPS(U, B, T3)
#undef U
#undef B
#undef T3

template <typename T>
TileFunction float_function(ElementOp op) {
  switch (op) {
#define X(name, id)   \
  case ElementOp::id: \
    return name##_tile<T>;
    ISOCHRON_FLOAT_OPS(X, X, X)
#undef X
    default:
      return nullptr;
  }
}

template <typename T>
struct SumOf {
  using V = typename VectorMath<T>::V;
  static constexpr double kIdentity = 0;
  static HWY_INLINE V vector(V a, V b) { return a + b; }
  static T scalar(T a, T b) { return a + b; }
};
template <typename T>
struct ProductOf {
  using V = typename VectorMath<T>::V;
  static constexpr double kIdentity = 1;
  static HWY_INLINE V vector(V a, V b) { return a * b; }
  static T scalar(T a, T b) { return a * b; }
};
template <typename T>
struct MaximumOf {
  using V = typename VectorMath<T>::V;
  static constexpr double kIdentity = -std::numeric_limits<double>::infinity();
  static HWY_INLINE V vector(V a, V b) { return Functors<VectorMath<T>>::maximum(a, b); }
  static T scalar(T a, T b) { return std::isnan(a) || a > b ? a : b; }
};
template <typename T>
struct MinimumOf {
  using V = typename VectorMath<T>::V;
  static constexpr double kIdentity = std::numeric_limits<double>::infinity();
  static HWY_INLINE V vector(V a, V b) { return Functors<VectorMath<T>>::minimum(a, b); }
  static T scalar(T a, T b) { return std::isnan(a) || a < b ? a : b; }
};

/// Four vectors of partial results; the order of operations depends only on n and the instruction set.
template <typename T, class Op>
TileScalar reduce_tile(const void* bytes, int64_t count) {
  using D = hn::ScalableTag<T>;
  const D d;
  const T* a = static_cast<const T*>(bytes);
  const size_t n = static_cast<size_t>(count);
  const size_t lanes = hn::Lanes(d);
  const auto identity = hn::Set(d, static_cast<T>(Op::kIdentity));
  auto s0 = identity;
  auto s1 = identity;
  auto s2 = identity;
  auto s3 = identity;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = Op::vector(s0, hn::LoadU(d, a + i));
    s1 = Op::vector(s1, hn::LoadU(d, a + i + lanes));
    s2 = Op::vector(s2, hn::LoadU(d, a + i + 2 * lanes));
    s3 = Op::vector(s3, hn::LoadU(d, a + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = Op::vector(s0, hn::LoadU(d, a + i));
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    s1 = Op::vector(s1, hn::IfThenElse(mask, masked_load(mask, d, a + i), identity));
  }
  s0 = Op::vector(Op::vector(s0, s1), Op::vector(s2, s3));
  HWY_ALIGN T all[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(s0, d, all);
  for (size_t width = lanes / 2; width > 0; width /= 2) {
    for (size_t k = 0; k < width; ++k) all[k] = Op::scalar(all[k], all[k + width]);
  }
  return {.f = static_cast<double>(all[0])};
}

template <typename T>
TileReduction float_reduction(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kMean:
      return reduce_tile<T, SumOf<T>>;
    case ReduceKind::kProd:
      return reduce_tile<T, ProductOf<T>>;
    case ReduceKind::kMax:
      return reduce_tile<T, MaximumOf<T>>;
    case ReduceKind::kMin:
      return reduce_tile<T, MinimumOf<T>>;
  }
  return nullptr;
}

/// where on f32: the bool condition widens to lanes.
void where_f32(void* dst_bytes, const void* condition_bytes, const void* b_bytes, const void* c_bytes,
               int64_t count) {
  using D = hn::ScalableTag<float>;
  const D d;
  const hn::Rebind<uint32_t, D> d32;
  const hn::Rebind<uint8_t, D> d8;
  float* dst = static_cast<float*>(dst_bytes);
  const uint8_t* condition = static_cast<const uint8_t*>(condition_bytes);
  const float* b = static_cast<const float*>(b_bytes);
  const float* c = static_cast<const float*>(c_bytes);
  const size_t n = static_cast<size_t>(count);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto wide = hn::PromoteTo(d32, hn::LoadU(d8, condition + i));
    const auto mask = hn::RebindMask(d, hn::Ne(wide, hn::Zero(d32)));
    hn::StoreU(hn::IfThenElse(mask, hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, dst + i);
  }
  for (; i < n; ++i) dst[i] = condition[i] ? b[i] : c[i];
}

TileFunction find_float_function(ElementOp op, DType dtype) {
  if (op == ElementOp::kWhere) return dtype == DType::kF32 ? where_f32 : nullptr;
  return dtype == DType::kF32 ? float_function<float>(op) : float_function<double>(op);
}
TileReduction find_float_reduction(ReduceKind kind, DType dtype) {
  return dtype == DType::kF32 ? float_reduction<float>(kind) : float_reduction<double>(kind);
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(find_float_function);
HWY_EXPORT(find_float_reduction);

TileFunction plain_tile_function(graph::ElementOp op, DType dtype);
TileReduction plain_tile_reduction(graph::ReduceKind kind, DType dtype);

TileFunction tile_function(graph::ElementOp op, DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kF64) {
    if (TileFunction found = HWY_DYNAMIC_DISPATCH(find_float_function)(op, dtype)) return found;
  }
  return plain_tile_function(op, dtype);
}

TileReduction tile_reduction(graph::ReduceKind kind, DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kF64)
    return HWY_DYNAMIC_DISPATCH(find_float_reduction)(kind, dtype);
  return plain_tile_reduction(kind, dtype);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
