// The stated error bounds of the element functions, on every instruction set, over the whole domain.
#include "isochron/ops/elementwise/element_accuracy.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "isochron/core/process/threads.h"
#include "ops/elementwise/element_references.h"
#include "support/expect_error.h"
#include "support/vector_targets.h"

namespace isochron {
namespace {

using graph::ElementOp;
using ops::error_bound;

/// Numbers of every exponent and both signs, then ranges in which functions bend, and the neighbors of
/// multiples of pi / 2, of 1 and of the powers of two.
template <typename T>
std::vector<T> whole_domain() {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::vector<T> values;
  std::mt19937_64 random(7);
  const auto add = [&](double x) {
    const T value = static_cast<T>(x);
    for (const T sign : {T(1), T(-1)}) values.push_back(sign * value);
  };
  const int count = sizeof(T) == 4 ? 400'000 : 60'000;
  for (int i = 0; i < count; ++i) values.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
  std::uniform_real_distribution<double> unit(0, 1);
  for (const double range : {1.0, 4.0, 10.0, 100.0, 800.0, 39000.0}) {
    for (int i = 0; i < count / 20; ++i) add(unit(random) * range);
  }
  for (int exponent = -70; exponent <= 20; ++exponent) {
    for (int i = 0; i < 200; ++i) add(std::ldexp(1 + unit(random), exponent));
    const T power = static_cast<T>(std::ldexp(1, exponent));
    for (const T near : {power, std::nextafter(power, T(0)), std::nextafter(power, T(1e9))}) add(near);
  }
  for (int k = 1; k < 25000; k += 1 + k / 200) {
    const T near = static_cast<T>(k * 1.57079632679489661923);
    for (const T value : {near, std::nextafter(near, T(0)), std::nextafter(near, T(1e9))}) add(value);
  }
  // A subnormal operand may count as 0.
  std::erase_if(values, [](T x) { return subnormal(x); });
  return values;
}

/// The largest error found of `results`, as a multiple of the bound.
template <typename T>
void expect_within(ElementOp op, const std::vector<T>& results, const std::vector<T>& inputs,
                   const std::vector<Finer<T>>& exact) {
  const ops::ErrorBound bound = error_bound(op, dtype_of<T>);
  double worst = -1;
  size_t at = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double ratio = error_ratio(results[i], exact[i], bound);
    if (ratio > worst) {
      worst = ratio;
      at = i;
    }
  }
  EXPECT_LE(worst, 1) << graph::element_op_name(op) << " " << dtype_name(dtype_of<T>) << " of " << inputs[at]
                      << " is " << results[at] << ", expected " << exact[at];
}

template <typename T>
void expect_unary_bounds() {
  const KeepSubnormals keep;
  const std::vector<T> inputs = whole_domain<T>();
  std::vector<Finer<T>> exact(inputs.size());
  for (const Reference<Finer<T>>& reference : unary_references<Finer<T>>()) {
    for (size_t i = 0; i < inputs.size(); ++i) exact[i] = reference.function(inputs[i]);
    for_each_target(
        [&] { expect_within(reference.op, evaluate_unary(reference.op, inputs), inputs, exact); });
  }
}

TEST(ElementAccuracy, HoldsForF32) { expect_unary_bounds<float>(); }
TEST(ElementAccuracy, HoldsForF64) { expect_unary_bounds<double>(); }

template <typename T>
void expect_binary_bounds() {
  const KeepSubnormals keep;
  using F = Finer<T>;
  struct Binary {
    ElementOp op;
    F (*function)(F, F);
    bool positive;  // the first operand
  };
  const Binary cases[] = {{ElementOp::kAdd, [](F a, F b) { return a + b; }, false},
                          {ElementOp::kSub, [](F a, F b) { return a - b; }, false},
                          {ElementOp::kMul, [](F a, F b) { return a * b; }, false},
                          {ElementOp::kDiv, [](F a, F b) { return a / b; }, false},
                          {ElementOp::kPow, [](F a, F b) { return std::pow(a, b); }, true},
                          {ElementOp::kMod, [](F a, F b) { return std::fmod(a, b); }, false},
                          {ElementOp::kAtan2, [](F a, F b) { return std::atan2(a, b); }, false}};
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> mantissa(1, 2);
  for (const Binary& test : cases) {
    std::vector<T> a;
    std::vector<T> b;
    std::vector<F> exact;
    for (int i = 0; i < 40'000; ++i) {
      const auto draw = [&](bool positive) {
        const int exponent = static_cast<int>(random() % 17) - 8;
        return static_cast<T>(std::ldexp(mantissa(random), exponent) * (positive || random() % 2 ? 1 : -1));
      };
      a.push_back(draw(test.positive));
      b.push_back(draw(false));
      exact.push_back(test.function(a.back(), b.back()));
    }
    for_each_target([&] { expect_within(test.op, evaluate(test.op, a, b), a, exact); });
  }
}

TEST(ElementAccuracy, HoldsForTwoOperands) {
  expect_binary_bounds<float>();
  expect_binary_bounds<double>();
}

TEST(ElementAccuracy, ResultsStayInTheRangeOfTheFunction) {
  for_each_target([] {
    const std::vector<float> x = whole_domain<float>();
    for (const ElementOp op :
         {ElementOp::kSin, ElementOp::kCos, ElementOp::kTanh, ElementOp::kErf, ElementOp::kSigmoid}) {
      for (const float y : evaluate(op, x)) EXPECT_FALSE(std::abs(y) > 1) << graph::element_op_name(op);
    }
  });
}

TEST(ElementAccuracy, IsStatedForEveryRoundedFunction) {
  for (const auto& reference : unary_references<double>()) {
    EXPECT_NO_THROW(error_bound(reference.op, DType::kF32)) << graph::element_op_name(reference.op);
  }
  for (const ops::ElementAccuracy& row : ops::element_accuracies()) {
    EXPECT_LE(row.f32.ulp, 8) << graph::element_op_name(row.op);
    EXPECT_LE(row.f64.ulp, 4) << graph::element_op_name(row.op);
  }
  EXPECT_ERROR(error_bound(ElementOp::kExp, DType::kI32), ErrorCode::kInvalidArgument, "i32");
  EXPECT_ERROR(error_bound(ElementOp::kEqual, DType::kF32), ErrorCode::kInvalidArgument, "equal");
}

TEST(ElementAccuracy, TheMeasureFindsAnErrorBeyondTheBound) {
  const auto check = [] {
    const float next = std::nextafter(1.5f, 2.0f);
    EXPECT_DOUBLE_EQ(error_ratio(next, 1.5, {1, 0}), 1);
    EXPECT_DOUBLE_EQ(error_ratio(next, 1.5, {0.5, 0}), 2);
    EXPECT_DOUBLE_EQ(error_ratio(next, 1.5, {0.5, 4}), 0.25);
    EXPECT_EQ(error_ratio(next, 1.5, {}), INFINITY);
    EXPECT_EQ(error_ratio(NAN, 1.5, {9, 9}), INFINITY);
    EXPECT_EQ(error_ratio(INFINITY, 3e38, {9, 9}), INFINITY);
    EXPECT_EQ(error_ratio(1e-37f, 1e-40, {3, 0}), 0) << "both are next to 0";
    EXPECT_GT(error_ratio(1e-30f, 1e-40, {3, 0}), 1);
  };
  {
    SCOPED_TRACE("subnormals kept");
    const KeepSubnormals keep;
    check();
  }
  SCOPED_TRACE("subnormals flushed to zero, as any kernel leaves its thread");
  flush_subnormals_to_zero();
  check();
}

}  // namespace
}  // namespace isochron
