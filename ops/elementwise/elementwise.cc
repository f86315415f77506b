#include "isochron/ops/elementwise/elementwise.h"

#include <cmath>
#include <numbers>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/held_numbers.h"

namespace isochron {

using ops::row;

#define ISOCHRON_UNARY(name)                    \
  Tensor name(const Tensor& x) {                \
    static const graph::OpDef& op = row(#name); \
    return graph::apply_one(op, {x});           \
  }
#define ISOCHRON_BINARY(name)                     \
  Tensor name(const Tensor& a, const Tensor& b) { \
    static const graph::OpDef& op = row(#name);   \
    return graph::apply_one(op, {a, b});          \
  }
ISOCHRON_UNARY(neg)
ISOCHRON_UNARY(abs)
ISOCHRON_UNARY(sign)
ISOCHRON_UNARY(square)
ISOCHRON_UNARY(sqrt)
ISOCHRON_UNARY(rsqrt)
ISOCHRON_UNARY(reciprocal)
ISOCHRON_UNARY(exp)
ISOCHRON_UNARY(expm1)
ISOCHRON_UNARY(log)
ISOCHRON_UNARY(log1p)
ISOCHRON_UNARY(sin)
ISOCHRON_UNARY(cos)
ISOCHRON_UNARY(tanh)
ISOCHRON_UNARY(sigmoid)
ISOCHRON_UNARY(erf)
ISOCHRON_UNARY(floor)
ISOCHRON_UNARY(ceil)
ISOCHRON_UNARY(round)
ISOCHRON_UNARY(trunc)
ISOCHRON_UNARY(relu)
ISOCHRON_UNARY(relu6)
ISOCHRON_UNARY(softplus)
ISOCHRON_UNARY(silu)
ISOCHRON_UNARY(gelu)
ISOCHRON_UNARY(gelu_tanh)
ISOCHRON_UNARY(tan)
ISOCHRON_UNARY(asin)
ISOCHRON_UNARY(acos)
ISOCHRON_UNARY(atan)
ISOCHRON_UNARY(sinh)
ISOCHRON_UNARY(cosh)
ISOCHRON_UNARY(asinh)
ISOCHRON_UNARY(acosh)
ISOCHRON_UNARY(atanh)
ISOCHRON_UNARY(lgamma)
ISOCHRON_UNARY(logical_not)
ISOCHRON_UNARY(is_nan)
ISOCHRON_UNARY(is_finite)
ISOCHRON_BINARY(add)
ISOCHRON_BINARY(sub)
ISOCHRON_BINARY(mul)
ISOCHRON_BINARY(div)
ISOCHRON_BINARY(pow)
ISOCHRON_BINARY(fmod)
ISOCHRON_BINARY(maximum)
ISOCHRON_BINARY(minimum)
ISOCHRON_BINARY(atan2)
ISOCHRON_BINARY(equal)
ISOCHRON_BINARY(not_equal)
ISOCHRON_BINARY(less)
ISOCHRON_BINARY(less_equal)
ISOCHRON_BINARY(greater)
ISOCHRON_BINARY(greater_equal)
ISOCHRON_BINARY(logical_and)
ISOCHRON_BINARY(logical_or)
#undef ISOCHRON_UNARY
#undef ISOCHRON_BINARY

namespace {

/// `number` in the dtype of the other operand.
Tensor number_like(double number, const Tensor& other) {
  require(other.defined(), ErrorCode::kInvalidArgument, "arithmetic", "an operand is an undefined tensor");
  ops::require_uncut(number, other.dtype(), "arithmetic");
  ops::require_held(number, other.dtype(), "arithmetic");
  return scalar(number, other.dtype());
}

/// Computes function(x, number), in f32 if x's 16-bit dtype can't represent the number well
/// (out_of_half_range).
template <typename Function>
Tensor with_number(const Tensor& x, double number, Function function) {
  if (!x.defined() || !ops::out_of_half_range(number, x.dtype())) return function(x, number_like(number, x));
  const Tensor result = function(cast(x, DType::kF32), scalar(number));
  return result.dtype() == DType::kF32 ? cast(result, x.dtype()) : result;
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  static const graph::OpDef& op = row("where");
  return graph::apply_one(op, {condition, a, b});
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  const ErrorScope scope("masked_fill");
  const Tensor filled = where(mask, number_like(value, x), x);
  require(filled.shape() == x.shape(), ErrorCode::kShapeMismatch, "masked_fill",
          "the mask {} does not broadcast to {}", mask.spec().str(), x.spec().str());
  return filled;
}

Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high) {
  static const graph::OpDef& op = row("clip");
  return graph::apply_one(op, {x, low, high});
}
Tensor clip(const Tensor& x, double low, double high) {
  const ErrorScope scope("clip");
  require(low <= high, ErrorCode::kInvalidArgument, "clip", "low {} exceeds high {}", low, high);
  return clip(x, number_like(low, x), number_like(high, x));
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> positive_infinity,
                  std::optional<double> negative_infinity) {
  const ErrorScope scope("nan_to_num");
  const Tensor infinite = is_inf(x);
  const double largest = ops::largest_finite(x.dtype());
  const Tensor y = where(infinite,
                         where(x > 0.0, number_like(positive_infinity.value_or(largest), x),
                               number_like(negative_infinity.value_or(-largest), x)),
                         x);
  return where(is_nan(x), number_like(nan, x), y);
}

Tensor remainder(const Tensor& a, const Tensor& b) {
  const ErrorScope scope("remainder");
  const Tensor rest = fmod(a, b);
  const Tensor zero = scalar(0, rest.dtype());
  const Tensor other_sign = logical_and(not_equal(rest, zero), logical_xor(less(rest, zero), less(b, zero)));
  return where(other_sign, rest + b, rest);
}
Tensor floor_divide(const Tensor& a, const Tensor& b) {
  const ErrorScope scope("floor_divide");
  return floor(a / b);
}

Tensor log_add_exp(const Tensor& a, const Tensor& b) {
  const ErrorScope scope("log_add_exp");
  // The operands are ordered by `where`, because maximum and abs have no second derivative at ties. For equal
  // infinities the difference is undefined, so they are handled separately and share the gradient.
  const Tensor in_order = greater_equal(a, b);
  const Tensor larger = where(in_order, a, b), smaller = where(in_order, b, a);
  const Tensor no_difference = logical_and(equal(a, b), is_inf(a));
  const Tensor difference = where(no_difference, scalar(0, larger.dtype()), smaller - larger);
  return where(no_difference, maximum(a, b), larger) + softplus(difference);
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const ErrorScope scope("lerp");
  return a + weight * (b - a);
}
Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  const ErrorScope scope("lerp");
  return a + weight * (b - a);
}

Tensor is_inf(const Tensor& x) {
  const ErrorScope scope("is_inf");
  return logical_not(logical_or(is_finite(x), is_nan(x)));
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  const ErrorScope scope("logical_xor");
  return logical_and(logical_or(a, b), logical_not(logical_and(a, b)));
}

Tensor log2(const Tensor& x) {
  const ErrorScope scope("log2");
  return log(x) * std::numbers::log2e;
}
Tensor log10(const Tensor& x) {
  const ErrorScope scope("log10");
  return log(x) * std::numbers::log10e;
}
Tensor logit(const Tensor& x) {
  const ErrorScope scope("logit");
  return log(x) - log1p(-x);
}

// For x > 0 by psi(x) = psi(x + n) - sum of 1 / (x + k), k < n, and the asymptotic series of Abramowitz and
// Stegun (1964), 6.3.18; else by reflection, 6.3.7.
Tensor digamma(const Tensor& x) {
  const ErrorScope scope("digamma");
  if (x.defined() && is_half(x.dtype())) return cast(digamma(cast(x, DType::kF32)), x.dtype());
  constexpr int kShift = 10;
  // B_2k / 2k
  constexpr double kSeries[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const Tensor positive = x > 0.0;
  const Tensor z = where(positive, x, 1.0 - x);
  Tensor result = -1.0 / z;
  for (int k = 1; k < kShift; ++k) result -= 1.0 / (z + k);
  const Tensor inverse = 1.0 / (z + kShift);
  const Tensor square_inverse = square(inverse);
  Tensor series = square_inverse * kSeries[6] + kSeries[5];
  for (int k = 4; k >= 0; --k) series = series * square_inverse + kSeries[k];
  result += log(z + kShift) - inverse * 0.5 - series * square_inverse;
  // tan has period pi. If its result isn't used, its argument is a number whose tangent isn't 0.
  const Tensor turn = where(positive, 0.25, x - round(x));
  return where(positive, result, result - std::numbers::pi / tan(turn * std::numbers::pi));
}

Tensor leaky_relu(const Tensor& x, double slope) {
  const ErrorScope scope("leaky_relu");
  return where(x > 0.0, x, x * slope);
}
Tensor elu(const Tensor& x, double alpha) {
  const ErrorScope scope("elu");
  // The argument of the branch that isn't taken is clamped, because an overflowing exponential would turn its
  // zero gradient into NaN. `minimum` isn't used for this, because it would halve the gradient at 0.
  const Tensor positive = x > 0.0;
  return where(positive, x, expm1(where(positive, scalar(0, x.dtype()), x)) * alpha);
}
Tensor selu(const Tensor& x) {
  const ErrorScope scope("selu");
  return elu(x, 1.6732632423543772) * 1.0507009873554805;
}

Tensor cast(const Tensor& x, DType dtype) {
  static const graph::OpDef& op = row("cast");
  if (x.defined() && x.dtype() == dtype) return x;
  return graph::apply_one(op, {x}, {{"dtype", dtype}});
}

Tensor full_precision(const Tensor& x) {
  static const graph::OpDef& op = row("full_precision");
  return graph::apply_one(op, {x});
}
Tensor stop_gradient(const Tensor& x) {
  static const graph::OpDef& op = row("stop_gradient");
  return graph::apply_one(op, {x});
}

#define ISOCHRON_OPERATOR(symbol, function)                                                    \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { return function(a, b); }          \
  Tensor operator symbol(const Tensor& a, double b) {                                          \
    return with_number(a, b, [](const Tensor& x, const Tensor& y) { return function(x, y); }); \
  }                                                                                            \
  Tensor operator symbol(double a, const Tensor& b) {                                          \
    return with_number(b, a, [](const Tensor& x, const Tensor& y) { return function(y, x); }); \
  }
ISOCHRON_OPERATOR(+, add)
ISOCHRON_OPERATOR(-, sub)
ISOCHRON_OPERATOR(*, mul)
ISOCHRON_OPERATOR(/, div)
ISOCHRON_OPERATOR(<, less)
ISOCHRON_OPERATOR(<=, less_equal)
ISOCHRON_OPERATOR(>, greater)
ISOCHRON_OPERATOR(>=, greater_equal)
#undef ISOCHRON_OPERATOR
Tensor operator-(const Tensor& x) { return neg(x); }
Tensor where(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, number_like(b, a));
}
Tensor where(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, number_like(a, b), b);
}
#define ISOCHRON_COMPARISON(name)                                                          \
  Tensor name(const Tensor& a, double b) {                                                 \
    const ErrorScope scope(#name);                                                         \
    return with_number(a, b, [](const Tensor& x, const Tensor& y) { return name(x, y); }); \
  }
ISOCHRON_COMPARISON(equal)
ISOCHRON_COMPARISON(not_equal)
ISOCHRON_COMPARISON(less)
ISOCHRON_COMPARISON(less_equal)
ISOCHRON_COMPARISON(greater)
ISOCHRON_COMPARISON(greater_equal)
#undef ISOCHRON_COMPARISON
#define ISOCHRON_WITH_NUMBER(name)         \
  Tensor name(const Tensor& a, double b) { \
    const ErrorScope scope(#name);         \
    return name(a, number_like(b, a));     \
  }
ISOCHRON_WITH_NUMBER(pow)
ISOCHRON_WITH_NUMBER(maximum)
ISOCHRON_WITH_NUMBER(minimum)
ISOCHRON_WITH_NUMBER(fmod)
#undef ISOCHRON_WITH_NUMBER

}  // namespace isochron
