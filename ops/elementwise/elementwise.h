// Elementwise functions. Shapes broadcast by NumPy's rule; operands must have the same dtype (no implicit
// promotion). Floats are computed in their own precision (16-bit ones in f32, rounded once per op); integers
// wrap. `/`, `fmod` and `pow` take floats only. docs/ops.md lists the largest error of each function, as
// ops/elementwise/element_accuracy.cc states it. On the CPU, `pow`, `fmod`, `atan2`, `tan`, the inverse
// trigonometric functions, the hyperbolic functions except `tanh`, and `lgamma` call the C library for one
// number at a time; all others are vectorized. NaN and infinity propagate as in the C library; subnormals may
// be flushed to zero.
#pragma once

#include <optional>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// a + b, a - b, a * b, a / b. Throw kShapeMismatch, kDtypeMismatch.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
/// a^b. The gradient with respect to b requires a > 0; elsewhere it is 0.
Tensor pow(const Tensor& a, const Tensor& b);
/// Remainder with the sign of the dividend (C's fmod).
Tensor fmod(const Tensor& a, const Tensor& b);
/// Remainder with the sign of the divisor (Python's %), and the matching quotient, floor(a / b). Floats only.
/// The quotient may be off by one where a / b rounds up to an integer.
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, const Tensor& b);
/// NaN if either operand is NaN. If a == b, each operand gets half of the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// The angle of the point (b, a). The gradient at the origin is 0.
Tensor atan2(const Tensor& a, const Tensor& b);
/// log(e^a + e^b), without overflow. Absolute error: 3 epsilon of the dtype, plus the rounding of the result.
Tensor log_add_exp(const Tensor& a, const Tensor& b);
/// a + weight (b - a).
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);

/// Comparisons and logical functions return bool and have no gradient.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);
Tensor is_nan(const Tensor& x);
Tensor is_inf(const Tensor& x);
Tensor is_finite(const Tensor& x);

/// condition ? a : b, elementwise; `condition` is bool.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// x with `value` wherever `mask` is true. The mask is bool and broadcasts to x. Throws kShapeMismatch if the
/// mask doesn't broadcast to x's shape, kDtypeMismatch or kOutOfRange for a value that x's dtype can't
/// represent. In f16, -1e9 is such a value; -infinity isn't.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
/// min(max(x, low), high) (PyTorch's clamp); the gradient passes where low <= x <= high, at the bounds too.
/// With numbers, throws kInvalidArgument where low > high.
Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor clip(const Tensor& x, double low, double high);
/// Replaces NaN by `nan`, and infinities by the given numbers or else by the dtype's largest and smallest
/// finite ones. Replaced elements have gradient 0. Floats only.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> positive_infinity = {},
                  std::optional<double> negative_infinity = {});

Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
/// log(x) times a constant, so results for powers of the base may be off by one unit in the last place.
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
/// log(x / (1 - x)), the inverse of sigmoid; infinite at 0 and 1, NaN outside.
Tensor logit(const Tensor& x);
Tensor erf(const Tensor& x);
/// The logarithm of the absolute value of the gamma function, and its derivative (PyTorch's digamma). The
/// error of `lgamma` is at most 7 ULP, on a device plus an absolute error near its zeros below -2. The error
/// of `digamma` for x > 0 is at most 8 epsilon, absolute if |digamma(x)| < 1 and relative otherwise; for x <
/// 0 the error of pi / tan(pi x) adds to it. `digamma` is -infinity at 0 and the negative integers. Both are
/// differentiable any number of times.
Tensor lgamma(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
/// To the nearest integer, ties to even.
Tensor round(const Tensor& x);
Tensor trunc(const Tensor& x);

/// max(x, 0); the gradient at 0 is 0.
Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);
/// x > 0 ? x : slope * x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// x > 0 ? x : alpha (e^x - 1).
Tensor elu(const Tensor& x, double alpha = 1.0);
/// Self-normalizing ELU (Klambauer et al. 2017).
Tensor selu(const Tensor& x);
/// log(1 + e^x).
Tensor softplus(const Tensor& x);
/// x sigmoid(x).
Tensor silu(const Tensor& x);
/// x Phi(x); gelu_tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks and Gimpel 2016).
Tensor gelu(const Tensor& x);
Tensor gelu_tanh(const Tensor& x);

/// Converts x to `dtype`. Floats to integers truncate; NaN and out-of-range values give an unspecified
/// integer. A conversion to bool is x != 0. The gradient is cast back.
Tensor cast(const Tensor& x, DType dtype);
/// Returns x, but lets no gradient through.
Tensor stop_gradient(const Tensor& x);
/// Returns x. Under mixed precision, keeps x and its gradient in f32. For sums that must not be rounded, such
/// as a residual stream of many layers: h = full_precision(h + block(h)).
Tensor full_precision(const Tensor& x);

/// A number is converted to the tensor's dtype. Throws kDtypeMismatch if an integer dtype would drop its
/// fraction, and kOutOfRange if the dtype can't represent it: if it is outside the range of an integer dtype,
/// or finite but infinite after conversion. If a finite number other than 0 isn't a normal number in f16 or
/// bf16, operators and comparisons compute in f32 instead and round the result, as in x / 1e5 and x + 1e-8.
#define ISOCHRON_OPERATOR(symbol, function)                 \
  Tensor operator symbol(const Tensor& a, const Tensor& b); \
  Tensor operator symbol(const Tensor& a, double b);        \
  Tensor operator symbol(double a, const Tensor& b);
ISOCHRON_OPERATOR(+, add)
ISOCHRON_OPERATOR(-, sub)
ISOCHRON_OPERATOR(*, mul)
ISOCHRON_OPERATOR(/, div)
ISOCHRON_OPERATOR(<, less)
ISOCHRON_OPERATOR(<=, less_equal)
ISOCHRON_OPERATOR(>, greater)
ISOCHRON_OPERATOR(>=, greater_equal)
#undef ISOCHRON_OPERATOR
Tensor operator-(const Tensor& x);
/// `a += b` is `a = a + b`: the handle `a` refers to the new tensor, and other handles still refer to the old
/// one.
#define ISOCHRON_ASSIGNMENT(symbol)                                                        \
  inline Tensor& operator symbol##=(Tensor& a, const Tensor& b) { return a = a symbol b; } \
  inline Tensor& operator symbol##=(Tensor& a, double b) { return a = a symbol b; }
ISOCHRON_ASSIGNMENT(+)
ISOCHRON_ASSIGNMENT(-)
ISOCHRON_ASSIGNMENT(*)
ISOCHRON_ASSIGNMENT(/)
#undef ISOCHRON_ASSIGNMENT
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);
Tensor pow(const Tensor& a, double b);
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, double b);
Tensor fmod(const Tensor& a, double b);

}  // namespace isochron
