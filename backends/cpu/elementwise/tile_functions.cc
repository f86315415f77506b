// Tile functions. For floats they use Highway: they are compiled for each instruction set and dispatched at
// run time. All others are plain loops (tile_functions_plain.cc).
#include "isochron/backends/cpu/elementwise/tile_functions.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/elementwise/tile_functions.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/tails-inl.h"
#include "isochron/backends/cpu/common/vector_math-inl.h"
#include "isochron/ops/elementwise/functors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using graph::ElementOp;
using graph::ReduceKind;

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

/// Uses four vectors of partial results. The order of operations depends only on `count` and the instruction
/// set.
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
