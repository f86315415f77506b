// The vector mathematics of the element ops on every instruction set this processor has: special values
// against the C library, and the largest error in units in the last place (ULP) over a sweep.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "isochron/ops/cpu/tile_functions.h"
#include "support/vector_targets.h"

namespace isochron {
namespace {

using graph::ElementOp;
using ops::tile_function;
using ops::tile_reduction;
using ops::TileFunction;

template <typename T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {T(0),
                           T(0.5),
                           T(1),
                           T(1.5),
                           T(2.5),
                           T(3),
                           T(20),
                           T(100),
                           T(1000),
                           Limits::infinity(),
                           Limits::max(),
                           Limits::min(),
                           Limits::denorm_min(),
                           Limits::min() / 2,
                           Limits::epsilon(),
                           T(1) - Limits::epsilon(),
                           T(1e-9),
                           T(1e6) + T(0.5)};
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  values.push_back(Limits::quiet_NaN());
  return values;
}

template <typename T>
std::vector<T> evaluate(ElementOp op, const std::vector<T>& a, const std::vector<T>& b = {}) {
  const TileFunction function = tile_function(op, dtype_of<T>);
  std::vector<T> result(a.size());
  function(result.data(), a.data(), b.empty() ? nullptr : b.data(), nullptr, static_cast<int64_t>(a.size()));
  return result;
}

template <typename T>
bool subnormal(T x) {
  return x != 0 && std::abs(x) < std::numeric_limits<T>::min();
}

/// |got - want| in units of T's last place at `want`; infinite when one is NaN or infinite and the other
/// isn't.
template <typename T>
double ulp_error(T got, long double want) {
  using Limits = std::numeric_limits<T>;
  const T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) == std::isnan(rounded) ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(rounded)) return got == rounded ? 0 : INFINITY;
  if (subnormal(rounded))
    return std::abs(got) <= Limits::min() ? 0 : INFINITY;  // they may be flushed to zero
  const T unit = std::nextafter(std::max(std::abs(rounded), Limits::min()), Limits::infinity()) -
                 std::max(std::abs(rounded), Limits::min());
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / unit);
}

using Real = long double;
struct UnaryCase {
  ElementOp op;
  Real (*reference)(Real);
  double low;  // range of the sweep
  double high;
  double f32_ulp;
  double f64_ulp;
};

const UnaryCase kUnaryCases[] = {
    {ElementOp::kCopy, [](Real x) { return x; }, -9, 9, 0, 0},
    {ElementOp::kNeg, [](Real x) { return -x; }, -9, 9, 0, 0},
    {ElementOp::kAbs, [](Real x) { return std::abs(x); }, -9, 9, 0, 0},
    {ElementOp::kSquare, [](Real x) { return x * x; }, -9, 9, 0.5, 0.5},
    {ElementOp::kSqrt, [](Real x) { return std::sqrt(x); }, 0, 9, 0.5, 0.5},
    {ElementOp::kRsqrt, [](Real x) { return 1 / std::sqrt(x); }, 0.01, 9, 1.5, 1.5},
    {ElementOp::kReciprocal, [](Real x) { return 1 / x; }, 0.01, 9, 0.5, 0.5},
    {ElementOp::kExp, [](Real x) { return std::exp(x); }, -87, 88.7, 4, 4},
    {ElementOp::kExpm1, [](Real x) { return std::expm1(x); }, -20, 88, 4, 4},
    {ElementOp::kLog, [](Real x) { return std::log(x); }, 1e-3, 50, 4, 4},
    {ElementOp::kLog1p, [](Real x) { return std::log1p(x); }, -0.999, 50, 4, 4},
    {ElementOp::kTanh, [](Real x) { return std::tanh(x); }, -12, 12, 4, 4},
    {ElementOp::kSigmoid, [](Real x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 4, 4},
    {ElementOp::kErf, [](Real x) { return std::erf(x); }, -6, 6, 4, 1},
    {ElementOp::kSoftplus, [](Real x) { return x > 100 ? x : std::log1p(std::exp(x)); }, -80, 80, 4, 4},
    {ElementOp::kSilu, [](Real x) { return x / (1 + std::exp(-x)); }, -80, 80, 5, 5},
    {ElementOp::kRelu, [](Real x) { return x < 0 ? 0 : x; }, -9, 9, 0, 0},
    {ElementOp::kRelu6, [](Real x) { return x < 0 ? 0 : (x > 6 ? 6 : x); }, -9, 9, 0, 0},
    {ElementOp::kFloor, [](Real x) { return std::floor(x); }, -9, 9, 0, 0},
    {ElementOp::kCeil, [](Real x) { return std::ceil(x); }, -9, 9, 0, 0},
    {ElementOp::kRound, [](Real x) { return std::nearbyint(x); }, -9, 9, 0, 0},
    {ElementOp::kTrunc, [](Real x) { return std::trunc(x); }, -9, 9, 0, 0},
};

template <typename T>
void expect_unary(const UnaryCase& test, const std::vector<T>& inputs, bool check_sign) {
  const double limit = sizeof(T) == 4 ? test.f32_ulp : test.f64_ulp;
  const std::vector<T> results = evaluate(test.op, inputs);
  double worst = -1;
  size_t at = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // A subnormal operand may count as zero.
    double error = ulp_error(results[i], test.reference(inputs[i]));
    if (subnormal(inputs[i])) {
      error = std::min(error, ulp_error(results[i], test.reference(std::copysign(Real(0), Real(inputs[i])))));
    } else if (check_sign && results[i] == 0 && inputs[i] == 0) {
      EXPECT_EQ(std::signbit(results[i]), std::signbit(test.reference(inputs[i])))
          << graph::element_op_name(test.op) << "(" << inputs[i] << ")";
    }
    if (error > worst) {
      worst = error;
      at = i;
    }
  }
  EXPECT_LE(worst, limit) << graph::element_op_name(test.op) << " " << dtype_name(dtype_of<T>) << "("
                          << inputs[at] << ") is " << results[at] << ", expected "
                          << test.reference(inputs[at]);
}

template <typename T>
std::vector<T> sweep(double low, double high, int count) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<T>(low + (high - low) * (i + 0.37) / count));
  return values;
}

TEST(ElementFunctions, SpecialValuesAreThoseOfTheCLibrary) {
  for_each_target([] {
    for (const UnaryCase& test : kUnaryCases) {
      const bool signed_zero = test.op < ElementOp::kRelu;  // not relu and rounding
      expect_unary(test, special_values<float>(), signed_zero);
      expect_unary(test, special_values<double>(), signed_zero);
    }
  });
}

TEST(ElementFunctions, ErrorsStayWithinTheStatedUlp) {
  for_each_target([] {
    for (const UnaryCase& test : kUnaryCases) {
      expect_unary(test, sweep<float>(test.low, test.high, 40000), true);
      expect_unary(test, sweep<double>(test.low, test.high, 10000), true);
      expect_unary(test, sweep<float>(test.low * 1e-3, test.high * 1e-3, 10000), true);
      expect_unary(test, sweep<double>(test.low * 1e-3, test.high * 1e-3, 10000), true);
    }
  });
}

/// sin and cos lose relative accuracy near their zeros: the error is absolute there.
template <typename T>
void expect_waves(double bound) {
  const std::vector<T> inputs = sweep<T>(-3000, 3000, 40000);
  const std::vector<T> sines = evaluate(ElementOp::kSin, inputs);
  const std::vector<T> cosines = evaluate(ElementOp::kCos, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_NEAR(sines[i], std::sin(static_cast<Real>(inputs[i])), bound) << inputs[i];
    ASSERT_NEAR(cosines[i], std::cos(static_cast<Real>(inputs[i])), bound) << inputs[i];
  }
  using Limits = std::numeric_limits<T>;
  const std::vector<T> undefined = {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
  for (const ElementOp op : {ElementOp::kSin, ElementOp::kCos}) {
    for (const T result : evaluate(op, undefined)) EXPECT_TRUE(std::isnan(result)) << result;
  }
}

TEST(ElementFunctions, SineAndCosineAreNear) {
  for_each_target([] {
    expect_waves<float>(2.5e-7);
    expect_waves<double>(5e-16);
  });
}

template <typename T, typename F>
void expect_binary(ElementOp op, F reference) {
  std::vector<T> a;
  std::vector<T> b;
  for (const T x : special_values<T>()) {
    for (const T y : special_values<T>()) {
      if (subnormal(x) || subnormal(y)) continue;
      a.push_back(x);
      b.push_back(y);
    }
  }
  const std::vector<T> results = evaluate(op, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const T want = reference(a[i], b[i]);
    const bool flushed = subnormal(want) && results[i] == 0;
    const bool same = (std::isnan(want) && std::isnan(results[i])) || want == results[i] || flushed;
    EXPECT_TRUE(same) << graph::element_op_name(op) << "(" << a[i] << ", " << b[i] << ") is " << results[i]
                      << ", expected " << want;
  }
}

template <typename T>
void expect_binary_ops() {
  const auto nan_or = [](T a, T b, T chosen) { return std::isnan(a) ? a : (std::isnan(b) ? b : chosen); };
  expect_binary<T>(ElementOp::kAdd, [](T a, T b) { return a + b; });
  expect_binary<T>(ElementOp::kSub, [](T a, T b) { return a - b; });
  expect_binary<T>(ElementOp::kMul, [](T a, T b) { return a * b; });
  expect_binary<T>(ElementOp::kDiv, [](T a, T b) { return a / b; });
  expect_binary<T>(ElementOp::kPow, [](T a, T b) { return std::pow(a, b); });
  expect_binary<T>(ElementOp::kMod, [](T a, T b) { return std::fmod(a, b); });
  expect_binary<T>(ElementOp::kAtan2, [](T a, T b) { return std::atan2(a, b); });
  expect_binary<T>(ElementOp::kMaximum, [&](T a, T b) { return nan_or(a, b, a > b ? a : b); });
  expect_binary<T>(ElementOp::kMinimum, [&](T a, T b) { return nan_or(a, b, a < b ? a : b); });
}

TEST(ElementFunctions, BinarySpecialValuesAreThoseOfTheCLibrary) {
  for_each_target([] {
    expect_binary_ops<float>();
    expect_binary_ops<double>();
  });
}

/// 16-bit floats are computed in f32 and rounded once: every one of the 65,536 values, bit for bit.
template <typename T>
void expect_rounded_once(ElementOp op) {
  std::vector<T> inputs(65536);
  std::vector<float> wide(65536);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].bits = static_cast<uint16_t>(i);
    wide[i] = static_cast<float>(inputs[i]);
  }
  const std::vector<T> results = evaluate(op, inputs);
  const std::vector<float> expected = evaluate(op, wide);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const T rounded(expected[i]);
    const bool same = std::isnan(expected[i]) ? std::isnan(static_cast<float>(results[i]))
                                              : results[i].bits == rounded.bits;
    ASSERT_TRUE(same) << graph::element_op_name(op) << "(" << wide[i] << ")";
  }
}

TEST(ElementFunctions, SixteenBitFloatsAreRoundedOnce) {
  for (const ElementOp op : {ElementOp::kCopy, ElementOp::kExp, ElementOp::kTanh, ElementOp::kSqrt,
                             ElementOp::kGelu, ElementOp::kRelu}) {
    expect_rounded_once<float16>(op);
    expect_rounded_once<bfloat16>(op);
  }
}

template <typename T>
void expect_nan_wins() {
  for (const size_t n : {1, 5, 16, 67, 1000}) {
    for (size_t at = 0; at < n; at += 1 + n / 7) {
      std::vector<T> values(n, T(1));
      values[at] = std::numeric_limits<T>::quiet_NaN();
      for (const graph::ReduceKind kind : {graph::ReduceKind::kSum, graph::ReduceKind::kMax,
                                           graph::ReduceKind::kMin, graph::ReduceKind::kProd}) {
        const double result = tile_reduction(kind, dtype_of<T>)(values.data(), static_cast<int64_t>(n)).f;
        EXPECT_TRUE(std::isnan(result)) << graph::reduce_kind_name(kind) << " of " << n << ", NaN at " << at;
      }
    }
  }
}

TEST(TileReductions, NanWinsWhereverItIs) {
  for_each_target([] {
    expect_nan_wins<float>();
    expect_nan_wins<double>();
  });
}

}  // namespace
}  // namespace isochron
