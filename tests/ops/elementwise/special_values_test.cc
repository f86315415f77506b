// Special values of the vector mathematics of the element ops on every instruction set this processor has,
// against the C library; element_accuracy_test.cc has the errors elsewhere.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/elementwise/element_references.h"
#include "support/vector_targets.h"

namespace isochron {
namespace {

using graph::ElementOp;
using ops::tile_reduction;

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
void expect_unary(const Reference<Finer<T>>& test, const std::vector<T>& inputs) {
  using F = Finer<T>;
  const ops::ErrorBound bound = ops::error_bound(test.op, dtype_of<T>);
  const bool check_sign = test.op < ElementOp::kRelu;  // not relu and rounding
  const std::vector<T> results = evaluate_unary(test.op, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const F exact = test.function(inputs[i]);
    double error = error_ratio(results[i], exact, bound);
    if (subnormal(inputs[i])) {  // may count as zero
      error =
          std::min(error, error_ratio(results[i], test.function(std::copysign(F(0), F(inputs[i]))), bound));
    } else if (check_sign && results[i] == 0 && inputs[i] == 0) {
      EXPECT_EQ(std::signbit(results[i]), std::signbit(exact))
          << graph::element_op_name(test.op) << "(" << inputs[i] << ")";
    }
    EXPECT_LE(error, 1) << graph::element_op_name(test.op) << " " << dtype_name(dtype_of<T>) << " of "
                        << inputs[i] << " is " << results[i] << ", expected " << exact;
  }
}

TEST(ElementFunctions, SpecialValuesAreThoseOfTheCLibrary) {
  for_each_target([] {
    for (const auto& test : unary_references<double>()) expect_unary<float>(test, special_values<float>());
    for (const auto& test : unary_references<long double>()) {
      expect_unary<double>(test, special_values<double>());
    }
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

/// 0 or subnormal, determined from the bits: threads that have run kernels treat subnormals as 0.
bool is_tiny(float value) { return (std::bit_cast<uint32_t>(value) & 0x7f800000U) == 0; }

/// 16-bit floats are computed in f32 and rounded once: every one of the 65,536 values, bit for bit. Results
/// that are subnormal in f32 may become 0.
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
    const bool flushed = is_tiny(expected[i]) && is_tiny(static_cast<float>(results[i]));
    const bool same = std::isnan(expected[i]) ? std::isnan(static_cast<float>(results[i]))
                                              : flushed || results[i].bits == rounded.bits;
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
