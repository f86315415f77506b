// The element functions of one float operand in extended precision, and the error of a result against its
// stated bound (ops/elementwise/element_accuracy.h).
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/ops/elementwise/element_accuracy.h"

namespace isochron {

/// Exact enough for T: its last place is 2,048 times finer.
template <typename T>
using Finer = std::conditional_t<sizeof(T) == 4, double, long double>;

template <typename T>
bool subnormal(T x) {
  return x != 0 && std::abs(x) < std::numeric_limits<T>::min();
}

template <typename R>
struct Reference {
  graph::ElementOp op;
  R (*function)(R);
};

/// The cumulative normal distribution and its density.
template <typename R>
R normal_cdf(R x) {
  return std::erfc(-x * static_cast<R>(0.707106781186547524400844362104849039L)) / 2;
}
template <typename R>
R normal_density(R x) {
  return static_cast<R>(0.398942280401432677939946059934381868L) * std::exp(-x * x / 2);
}
template <typename R>
R stable_sigmoid(R x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

/// gelu_grad is that of a gradient of 1.
template <typename R>
std::vector<Reference<R>> unary_references() {
  using Op = graph::ElementOp;
  return {
      {Op::kCopy, [](R x) { return x; }},
      {Op::kNeg, [](R x) { return -x; }},
      {Op::kAbs, [](R x) { return std::abs(x); }},
      {Op::kSign, [](R x) { return std::isnan(x) ? x : static_cast<R>((x > 0) - (x < 0)); }},
      {Op::kSquare, [](R x) { return x * x; }},
      {Op::kSqrt, [](R x) { return std::sqrt(x); }},
      {Op::kRsqrt, [](R x) { return 1 / std::sqrt(x); }},
      {Op::kReciprocal, [](R x) { return 1 / x; }},
      {Op::kExp, [](R x) { return std::exp(x); }},
      {Op::kExpm1, [](R x) { return std::expm1(x); }},
      {Op::kLog, [](R x) { return std::log(x); }},
      {Op::kLog1p, [](R x) { return std::log1p(x); }},
      {Op::kSin, [](R x) { return std::sin(x); }},
      {Op::kCos, [](R x) { return std::cos(x); }},
      {Op::kTanh, [](R x) { return std::tanh(x); }},
      {Op::kSigmoid, stable_sigmoid<R>},
      {Op::kErf, [](R x) { return std::erf(x); }},
      {Op::kSoftplus, [](R x) { return std::max<R>(x, 0) + std::log1p(std::exp(-std::abs(x))); }},
      {Op::kSilu, [](R x) { return x * stable_sigmoid(x); }},
      {Op::kRelu, [](R x) { return x < 0 ? 0 : x; }},
      {Op::kRelu6, [](R x) { return x < 0 ? 0 : (x > 6 ? 6 : x); }},
      {Op::kGelu, [](R x) { return x < -1000 ? R(-0.0) : x * normal_cdf(x); }},
      {Op::kGeluTanh,
       [](R x) {
         const R inner =
             static_cast<R>(0.797884560802865355879892119868763737L) * (x + R(0.044715L) * x * x * x);
         return x * stable_sigmoid(2 * inner);
       }},
      {Op::kGeluGrad,
       [](R x) { return std::isinf(x) ? normal_cdf(x) : normal_cdf(x) + x * normal_density(x); }},
      {Op::kFloor, [](R x) { return std::floor(x); }},
      {Op::kCeil, [](R x) { return std::ceil(x); }},
      {Op::kRound, [](R x) { return std::nearbyint(x); }},
      {Op::kTrunc, [](R x) { return std::trunc(x); }},
      {Op::kTan, [](R x) { return std::tan(x); }},
      {Op::kAsin, [](R x) { return std::asin(x); }},
      {Op::kAcos, [](R x) { return std::acos(x); }},
      {Op::kAtan, [](R x) { return std::atan(x); }},
      {Op::kSinh, [](R x) { return std::sinh(x); }},
      {Op::kCosh, [](R x) { return std::cosh(x); }},
      {Op::kAsinh, [](R x) { return std::asinh(x); }},
      {Op::kAcosh, [](R x) { return std::acosh(x); }},
      {Op::kAtanh, [](R x) { return std::atanh(x); }},
      {Op::kLgamma, [](R x) { return std::lgamma(x); }},
  };
}

/// f(a) or f(a, b) over whole vectors.
template <typename T>
std::vector<T> evaluate(graph::ElementOp op, const std::vector<T>& a, const std::vector<T>& b = {}) {
  const ops::TileFunction function = ops::tile_function(op, dtype_of<T>);
  std::vector<T> result(a.size());
  function(result.data(), a.data(), b.empty() ? nullptr : b.data(), nullptr, static_cast<int64_t>(a.size()));
  return result;
}
template <typename T>
std::vector<T> evaluate_unary(graph::ElementOp op, const std::vector<T>& x) {
  if (op != graph::ElementOp::kGeluGrad) return evaluate(op, x);
  return evaluate(op, std::vector<T>(x.size(), T(1)), x);
}

/// |got - want| as a multiple of `bound`: at most 1 where it holds, with a bound of 0 only when exact.
/// Infinite when one is NaN or infinite and the other isn't. The same whether or not this thread flushes
/// subnormals to zero.
template <typename T>
double error_ratio(T got, Finer<T> want, ops::ErrorBound bound) {
  using Limits = std::numeric_limits<T>;
  const T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) == std::isnan(rounded) ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(rounded)) return got == rounded ? 0 : INFINITY;
  const T small = bound.ulp == 0 ? Limits::min() : 1024 * Limits::min();
  if (want != 0 && std::abs(rounded) < small && std::abs(got) < small) return 0;
  const Finer<T> error = std::abs(got - want);
  if (error == 0) return 0;
  const T at = std::max(std::abs(rounded), Limits::min());
  const Finer<T> unit = std::ldexp(Finer<T>(1), std::ilogb(at) + 1 - Limits::digits);
  const Finer<T> most = std::max<Finer<T>>(static_cast<Finer<T>>(bound.ulp) * unit,
                                           static_cast<Finer<T>>(bound.absolute) * Limits::epsilon());
  return most == 0 ? INFINITY : static_cast<double>(error / most);
}

}  // namespace isochron
