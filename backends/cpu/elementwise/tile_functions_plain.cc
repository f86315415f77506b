// Tile functions in plain loops: for integers, bools, comparisons, casts, ops that call the C library
// (element::FloatRest), and 16-bit floats, which are converted in short blocks for the f32 functions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/ops/elementwise/scalar_functors.h"

namespace isochron::ops {

TileFunction plain_tile_function(graph::ElementOp op, DType dtype);
TileReduction plain_tile_reduction(graph::ReduceKind kind, DType dtype);
TileFunction plain_tile_cast(DType from, DType to);

namespace {

using graph::ElementOp;
using graph::ReduceKind;

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <typename R, typename T, auto kFunction>
void unary(void* dst, const void* a, const void*, const void*, int64_t n) {
  R* out = static_cast<R*>(dst);
  const T* x = static_cast<const T*>(a);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(kFunction(x[i]));
}
template <typename R, typename T, auto kFunction>
void binary(void* dst, const void* a, const void* b, const void*, int64_t n) {
  R* out = static_cast<R*>(dst);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(kFunction(x[i], y[i]));
}
template <typename T>
void where(void* dst, const void* condition, const void* b, const void* c, int64_t n) {
  T* out = static_cast<T*>(dst);
  const bool* choose = static_cast<const bool*>(condition);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
  for (int64_t i = 0; i < n; ++i) out[i] = choose[i] ? x[i] : y[i];
}
template <typename R, typename T, auto kFunction>
void ternary(void* dst, const void* a, const void* b, const void* c, int64_t n) {
  R* out = static_cast<R*>(dst);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  const T* z = static_cast<const T*>(c);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<R>(kFunction(x[i], y[i], z[i]));
}

template <typename T>
TileFunction comparison(ElementOp op) {
  switch (op) {
    case ElementOp::kEqual:
      return binary<bool, T, element::Comparisons<T>::equal>;
    case ElementOp::kNotEqual:
      return binary<bool, T, element::Comparisons<T>::not_equal>;
    case ElementOp::kLess:
      return binary<bool, T, element::Comparisons<T>::less>;
    case ElementOp::kLessEqual:
      return binary<bool, T, element::Comparisons<T>::less_equal>;
    case ElementOp::kGreater:
      return binary<bool, T, element::Comparisons<T>::greater>;
    case ElementOp::kGreaterEqual:
      return binary<bool, T, element::Comparisons<T>::greater_equal>;
    default:
      return nullptr;
  }
}

template <typename T>
TileFunction float_only(ElementOp op) {
  switch (op) {
    case ElementOp::kIsNan:
      return unary<bool, T, element::FloatRest<T>::is_nan>;
    case ElementOp::kIsFinite:
      return unary<bool, T, element::FloatRest<T>::is_finite>;
    case ElementOp::kPow:
      return binary<T, T, element::FloatRest<T>::pow>;
    case ElementOp::kMod:
      return binary<T, T, element::FloatRest<T>::fmod>;
    case ElementOp::kAtan2:
      return binary<T, T, element::FloatRest<T>::atan2>;
#define X(id, name)   \
  case ElementOp::id: \
    return unary<T, T, element::FloatRest<T>::name>;
      X(kTan, tan)
      X(kAsin, asin)
      X(kAcos, acos)
      X(kAtan, atan)
      X(kSinh, sinh)
      X(kCosh, cosh)
      X(kAsinh, asinh)
      X(kAcosh, acosh)
      X(kAtanh, atanh)
      X(kLgamma, lgamma)
#undef X
    default:
      return nullptr;
  }
}

template <typename T>
TileFunction integer_function(ElementOp op) {
  using W = element::Whole<T>;
  switch (op) {
    case ElementOp::kCopy:
    case ElementOp::kFloor:
    case ElementOp::kCeil:
    case ElementOp::kRound:
    case ElementOp::kTrunc:
      return unary<T, T, W::copy>;
    case ElementOp::kNeg:
      return unary<T, T, W::neg>;
    case ElementOp::kAbs:
      return unary<T, T, W::abs>;
    case ElementOp::kSign:
      return unary<T, T, W::sign>;
    case ElementOp::kSquare:
      return unary<T, T, W::square>;
    case ElementOp::kRelu:
      return unary<T, T, W::relu>;
    case ElementOp::kRelu6:
      return unary<T, T, W::relu6>;
    case ElementOp::kAdd:
      return binary<T, T, W::add>;
    case ElementOp::kSub:
      return binary<T, T, W::sub>;
    case ElementOp::kMul:
      return binary<T, T, W::mul>;
    case ElementOp::kDiv:
      return binary<T, T, W::div>;
    case ElementOp::kMod:
      return binary<T, T, W::fmod>;
    case ElementOp::kPow:
      return binary<T, T, W::pow>;
    case ElementOp::kMaximum:
      return binary<T, T, W::maximum>;
    case ElementOp::kMinimum:
      return binary<T, T, W::minimum>;
    case ElementOp::kClip:
      return ternary<T, T, W::clip>;
    case ElementOp::kMulAdd:
      return ternary<T, T, W::mul_add>;
    default:
      return nullptr;
  }
}

TileFunction bool_function(ElementOp op) {
  switch (op) {
    case ElementOp::kCopy:
      return unary<bool, bool, element::Truth::copy>;
    case ElementOp::kLogicalNot:
      return unary<bool, bool, element::Truth::logical_not>;
    case ElementOp::kLogicalAnd:
    case ElementOp::kMinimum:
      return binary<bool, bool, element::Truth::logical_and>;
    case ElementOp::kLogicalOr:
    case ElementOp::kMaximum:
      return binary<bool, bool, element::Truth::logical_or>;
    default:
      return nullptr;
  }
}

constexpr int64_t kBlock = 256;

template <typename T>
void widen(float* out, const void* in, int64_t n) {
  static const TileFunction function = tile_cast(dtype_of<T>, DType::kF32);
  function(out, in, nullptr, nullptr, n);
}
template <typename T>
void narrow(T* out, const float* in, int64_t n) {
  static const TileFunction function = tile_cast(DType::kF32, dtype_of<T>);
  function(out, in, nullptr, nullptr, n);
}

/// An op on 16-bit floats: converts a block to f32, runs the f32 function, and rounds the results. There is
/// one template instance per op, because a TileFunction carries no state.
template <typename T, ElementOp kOp>
void through_f32(void* dst, const void* a, const void* b, const void* c, int64_t n) {
  static const TileFunction function = tile_function(kOp, DType::kF32);
  constexpr bool kPredicate = kOp == ElementOp::kIsNan || kOp == ElementOp::kIsFinite ||
                              (kOp >= ElementOp::kEqual && kOp <= ElementOp::kGreaterEqual);
  float x[kBlock], y[kBlock], z[kBlock], r[kBlock];
  const size_t size = sizeof(T);
  const size_t a_size = kOp == ElementOp::kWhere ? 1 : size;
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t m = std::min(kBlock, n - start);
    const size_t at = static_cast<size_t>(start);
    const void* first = static_cast<const char*>(a) + at * a_size;
    if (kOp != ElementOp::kWhere) widen<T>(x, first, m);
    if (b) widen<T>(y, static_cast<const char*>(b) + at * size, m);
    if (c) widen<T>(z, static_cast<const char*>(c) + at * size, m);
    const void* a_operand = kOp == ElementOp::kWhere ? first : x;
    if constexpr (kPredicate) {
      function(static_cast<char*>(dst) + at, a_operand, y, z, m);
    } else {
      function(r, a_operand, y, z, m);
      narrow(static_cast<T*>(dst) + at, r, m);
    }
  }
}

template <typename T>
TileFunction half_function(ElementOp op) {
  if (!tile_function(op, DType::kF32) || op == ElementOp::kCast) return nullptr;
  switch (op) {
#define X(id, name, arity) \
  case ElementOp::id:      \
    return through_f32<T, ElementOp::id>;
    ISOCHRON_ELEMENT_OPS(X)
#undef X
    default:
      return nullptr;
  }
}

template <typename To, typename From>
void cast(void* dst, const void* a, const void*, const void*, int64_t n) {
  To* out = static_cast<To*>(dst);
  const From* x = static_cast<const From*>(a);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kIsHalf<From>) {
      const float wide = static_cast<float>(x[i]);
      if constexpr (kIsHalf<To>) {
        out[i] = To(wide);
      } else if constexpr (std::is_same_v<To, bool>) {
        out[i] = wide != 0;
      } else {
        out[i] = static_cast<To>(wide);
      }
    } else if constexpr (kIsHalf<To>) {
      out[i] = To(static_cast<float>(x[i]));
    } else if constexpr (std::is_same_v<To, bool>) {
      out[i] = x[i] != From{};
    } else {
      out[i] = static_cast<To>(x[i]);
    }
  }
}

template <typename T, ReduceKind kKind>
TileScalar reduce_integers(const void* a, int64_t n) {
  const T* x = static_cast<const T*>(a);
  int64_t result = x[0];
  for (int64_t i = 1; i < n; ++i) {
    const int64_t value = x[i];
    switch (kKind) {
      case ReduceKind::kSum:
      case ReduceKind::kMean:
        result = element::Whole<int64_t>::add(result, value);
        break;
      case ReduceKind::kProd:
        result = element::Whole<int64_t>::mul(result, value);
        break;
      case ReduceKind::kMax:
        result = std::max(result, value);
        break;
      case ReduceKind::kMin:
        result = std::min(result, value);
        break;
    }
  }
  return {.i = result};
}

template <typename T, ReduceKind kKind>
TileScalar reduce_halves(const void* a, int64_t n) {
  static const TileReduction function = tile_reduction(kKind, DType::kF32);
  float block[kBlock];
  double total = 0;
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t m = std::min(kBlock, n - start);
    widen<T>(block, static_cast<const T*>(a) + start, m);
    const double part = function(block, m).f;
    if (start == 0) {
      total = part;
    } else if (kKind == ReduceKind::kMax) {
      total = std::isnan(part) || part > total ? part : total;
    } else if (kKind == ReduceKind::kMin) {
      total = std::isnan(part) || part < total ? part : total;
    } else {
      total = kKind == ReduceKind::kProd ? total * part : total + part;
    }
  }
  return {.f = total};
}

template <typename T>
TileReduction reduction_of(ReduceKind kind) {
  switch (kind) {
#define X(id)                                  \
  case ReduceKind::id:                         \
    if constexpr (kIsHalf<T>)                  \
      return reduce_halves<T, ReduceKind::id>; \
    else                                       \
      return reduce_integers<T, ReduceKind::id>;
    X(kSum) X(kMean) X(kMax) X(kMin) X(kProd)
#undef X
  }
  return nullptr;
}

}  // namespace

TileFunction plain_tile_function(ElementOp op, DType dtype) {
  return dispatch_dtype(dtype, [op]<typename T>(T) -> TileFunction {
    if constexpr (kIsHalf<T>) {
      return half_function<T>(op);
    } else {
      if (op == ElementOp::kWhere) return where<T>;
      if (TileFunction found = comparison<T>(op)) return found;
      if constexpr (kIsFloat<T>) {
        return float_only<T>(op);
      } else if constexpr (std::is_same_v<T, bool>) {
        return bool_function(op);
      } else {
        return integer_function<T>(op);
      }
    }
  });
}

TileReduction plain_tile_reduction(ReduceKind kind, DType dtype) {
  return dispatch_dtype(dtype, [kind]<typename T>(T) -> TileReduction {
    if constexpr (kIsFloat<T>) {
      return nullptr;  // these are vectorized
    } else {
      return reduction_of<T>(kind);
    }
  });
}

TileFunction plain_tile_cast(DType from, DType to) {
  return dispatch_dtype(from, [to]<typename From>(From) {
    return dispatch_dtype(to, []<typename To>(To) -> TileFunction { return cast<To, From>; });
  });
}

}  // namespace isochron::ops
