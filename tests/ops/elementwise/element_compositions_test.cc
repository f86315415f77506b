// Element functions beside PyTorch's (tests/golden/make_functions_torch.py) and at their limits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "isochron/ops/elementwise/activations.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "ops/golden_functions.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using Values = std::vector<double>;
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ElementCompositions : public GoldenFunctions {};

TEST_F(ElementCompositions, FunctionsAreThoseOfPyTorch) {
  check_several("tan", [](In in) { return tan(in[0]); });
  check_several("asin", [](In in) { return asin(tanh(in[0])); });
  check_several("acos", [](In in) { return acos(tanh(in[0])); });
  check_several("atan", [](In in) { return atan(in[0]); });
  check_several("sinh", [](In in) { return sinh(in[0]); });
  check_several("cosh", [](In in) { return cosh(in[0]); });
  check_several("asinh", [](In in) { return asinh(in[0]); });
  check_several("acosh", [](In in) { return acosh(exp(in[0]) + 1.0); });
  check_several("atanh", [](In in) { return atanh(tanh(in[0]) * 0.9); });
  check_several(
      "lgamma", [](In in) { return lgamma(in[0] * 3.0); }, 1e-12);
  check_several(
      "digamma", [](In in) { return digamma(in[0] * 3.0); }, 1e-9);
  check_several(
      "digamma_positive", [](In in) { return digamma(exp(in[0] * 3.0)); }, 1e-9);
  check_several("log2", [](In in) { return log2(exp(in[0])); });
  check_several("log10", [](In in) { return log10(exp(in[0])); });
  check_several("logit", [](In in) { return logit(sigmoid(in[0])); });
  check_several("log_add_exp", [](In in) { return log_add_exp(in[0] * 50.0, in[1] * 50.0); });
  check_several("lerp", [](In in) { return lerp(in[0], in[1], in[2]); });
  check_several("remainder", [](In in) { return remainder(in[0] * 5.0, in[1]); });
}

TEST_F(ElementCompositions, ActivationsAreThoseOfPyTorch) {
  check_several("softsign", [](In in) { return softsign(in[0]); });
  check_several("hard_tanh", [](In in) { return hard_tanh(in[0], -0.5, 0.8); });
  check_several(
      "hard_sigmoid", [](In in) { return hard_sigmoid(in[0] * 3.0); }, 1e-7);  // numbers in f32 there
  check_several("hard_swish", [](In in) { return hard_swish(in[0] * 3.0); });
  check_several("mish", [](In in) { return mish(in[0]); });
  check_several("log_sigmoid", [](In in) { return log_sigmoid(in[0] * 30.0); });
  check_several(
      "celu", [](In in) { return celu(in[0], 0.7); }, 1e-7);
  check_several("hard_shrink", [](In in) { return hard_shrink(in[0]); });
  check_several("soft_shrink", [](In in) { return soft_shrink(in[0], 0.3); });
  check_several("prelu", [](In in) { return prelu(in[0], in[1]); });
  check_several("glu", [](In in) { return glu(in[0]); });
  check_several("glu_first", [](In in) { return glu(in[0], 0); });
}

TEST(ElementLimits, QuotientsAndRemaindersHaveTheSignOfTheDivisor) {
  const Tensor a = from_vector({6}, {7, -7, 7, -7, 6, 0.5}),
               b = from_vector({6}, {3, 3, -3, -3, -3, kInfinite});
  EXPECT_EQ(remainder(a, b).to_vector(), (Values{1, 2, -2, -1, 0, 0.5}));
  EXPECT_EQ(floor_divide(a, b).to_vector(), (Values{2, -3, -3, 2, -2, 0}));
}

TEST(ElementLimits, InfinitiesAndNaN) {
  const Tensor x = from_vector({4}, {-kInfinite, kNan, kInfinite, 2});
  EXPECT_EQ(is_inf(x).to_vector(), (Values{1, 0, 1, 0}));
  EXPECT_EQ(nan_to_num(x, 5, 7).to_vector(), (Values{-std::numeric_limits<float>::max(), 5, 7, 2}));
  EXPECT_EQ(nan_to_num(x, 0, {}, -1).to_vector(), (Values{-1, 0, std::numeric_limits<float>::max(), 2}));
  EXPECT_EQ(nan_to_num(cast(x, DType::kF16)).to_vector(), (Values{-65504, 0, 65504, 2}));
  EXPECT_EQ(nan_to_num(cast(x, DType::kBF16)).to_vector(), (Values{-0x1.FEp127, 0, 0x1.FEp127, 2}));
  EXPECT_ERROR(nan_to_num(arange(2)), ErrorCode::kDtypeMismatch, "nan_to_num");
  GradientTape tape;
  EXPECT_EQ(tape.gradient(sum(nan_to_num(x)), x).to_vector(), (Values{0, 0, 0, 1}));

  const Tensor a = from_vector({4}, {-kInfinite, -kInfinite, kInfinite, 1000}, DType::kF64),
               b = from_vector({4}, {-kInfinite, 3, kInfinite, 1000}, DType::kF64);
  GradientTape of_sums;
  const Tensor sums = log_add_exp(a, b);
  EXPECT_EQ(sums.to_vector(), (Values{-kInfinite, 3, kInfinite, 1000 + std::numbers::ln2}));
  EXPECT_EQ(of_sums.gradient(sum(sums), a).to_vector(), (Values{0.5, 0, 0.5, 0.5}));
}

TEST(ElementLimits, SumsOfExponentialsHaveASecondDerivativeAtTies) {
  const Tensor a = from_vector({4}, {0, 1000, -kInfinite, 1}, DType::kF64),
               b = from_vector({4}, {0, 1000, -kInfinite, -kInfinite}, DType::kF64);
  GradientTape tape(true);
  tape.watch(a);
  tape.watch(b);
  const Tensor sums = sum(log_add_exp(a, b));
  const Tensor first = tape.gradient(sums, a);
  EXPECT_EQ(first.to_vector(), (Values{0.5, 0.5, 0.5, 1}));
  EXPECT_EQ(tape.gradient(sums, b).to_vector(), (Values{0.5, 0.5, 0.5, 0}));
  EXPECT_EQ(tape.gradient(sum(first), a).to_vector(), (Values{0.25, 0.25, 0, 0}));
  EXPECT_EQ(tape.gradient(sum(first), b).to_vector(), (Values{-0.25, -0.25, 0, 0}));
}

TEST(NumbersBesideHalves, BeyondTheirRangeAreTakenInF32) {
  const Tensor x = full({}, 60000, DType::kF16);
  EXPECT_EQ((x / 1e5).dtype(), DType::kF16);
  for (const Tensor& quotient : {x / 1e5, x * 1e-5}) EXPECT_NEAR(quotient.to_vector()[0], 0.6, 3e-4);
  EXPECT_NEAR((1e5 / x).to_vector()[0], 1.6667, 1e-3);
  EXPECT_EQ((x - 1e5).to_vector()[0], -40000);
  EXPECT_EQ((x < 1e5).dtype(), DType::kBool);
  EXPECT_EQ((x < 1e5).to_vector()[0], 1);
  EXPECT_EQ((1e5 < x).to_vector()[0], 0);
  EXPECT_EQ(equal(x * 0.0, 1e-9).to_vector()[0], 0);
  EXPECT_EQ(greater(x * 0.0, -1e-9).to_vector()[0], 1);
  EXPECT_EQ((full({}, 1, DType::kBF16) / 1e-39).to_vector()[0], kInfinite);
  GradientTape tape;
  tape.watch(x);
  EXPECT_NEAR(tape.gradient(x / 1e5, x).to_vector()[0], 1e-5, 1e-7);
}

TEST(NumbersBesideHalves, ThatWouldBecomeInfiniteAreRefused) {
  const Tensor x = ones({2}, DType::kF16), mask = from_vector({2}, {1, 0}, DType::kBool);
  EXPECT_ERROR(masked_fill(x, mask, -1e9), ErrorCode::kOutOfRange,
               "-1000000000 is beyond the largest number of f16, 65504; use infinity");
  EXPECT_EQ(masked_fill(x, mask, -kInfinite).to_vector(), (Values{-kInfinite, 1}));
  EXPECT_EQ(masked_fill(x, mask, 65519).to_vector(), (Values{65504, 1}));
  EXPECT_EQ(masked_fill(cast(x, DType::kBF16), mask, -0x1p30).to_vector(), (Values{-0x1p30, 1}));
  EXPECT_ERROR(where(mask, x, 65520), ErrorCode::kOutOfRange, "of f16");
  EXPECT_ERROR(clip(x, 0, 1e9), ErrorCode::kOutOfRange, "of f16");
  EXPECT_ERROR(maximum(x, 1e5), ErrorCode::kOutOfRange, "of f16");
  EXPECT_ERROR(ones({}) / 1e39, ErrorCode::kOutOfRange, "of f32, 3.4028234663852886e+38");
  EXPECT_EQ((ones({}) * 3.4028235e38).item<float>(), std::numeric_limits<float>::max());
}

TEST(ElementLimits, ExclusiveOr) {
  const Tensor a = from_vector({4}, {0, 0, 1, 1}, DType::kBool),
               b = from_vector({4}, {0, 1, 0, 1}, DType::kBool);
  EXPECT_EQ(logical_xor(a, b).to_vector(), (Values{0, 1, 1, 0}));
}

TEST(ElementLimits, DigammaAtItsPolesAndFarAway) {
  const Tensor x = from_vector({4}, {0, -3, 1e30, 1}, DType::kF64);
  GradientTape tape;
  const Tensor y = digamma(x);
  EXPECT_EQ(y.to_vector()[0], -kInfinite);
  EXPECT_EQ(y.to_vector()[1], -kInfinite);
  EXPECT_NEAR(y.to_vector()[2], std::log(1e30), 1e-13);
  EXPECT_NEAR(y.to_vector()[3], -std::numbers::egamma, 1e-15);
  const Values gradient = tape.gradient(sum(y), x).to_vector();
  EXPECT_NEAR(gradient[3], std::numbers::pi * std::numbers::pi / 6, 1e-14);
  EXPECT_NEAR(gradient[2], 1e-30, 1e-44);
  EXPECT_NEAR(cast(digamma(full({}, 2.5, DType::kBF16)), DType::kF64).item<double>(), 0.7031566, 2e-3);
}

TEST(ElementLimits, GradientsOfHugeNumbersAreFinite) {
  const Tensor huge = from_vector({3}, {1e30, -1e30, 0});
  GradientTape tape;
  const Tensor all = sum(atan(huge)) + sum(asinh(huge)) + sum(acosh(abs(huge) + 1.5));
  const Values gradient = tape.gradient(all, huge).to_vector();
  EXPECT_NEAR(gradient[0], 2e-30, 1e-36) << "of asinh and acosh; that of atan is 1e-60";
  EXPECT_NEAR(gradient[2], 2, 1e-6);
}

TEST(ElementLimits, InverseTangentAndSineAreFlatAtInfinity) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const Tensor x = from_vector({3}, {kInfinite, -kInfinite, kNan}, dtype);
    GradientTape tape(true);
    const std::vector<Tensor> sums{sum(atan(x)), sum(asinh(x))};
    for (const Tensor& result : sums) {
      const Values gradient = tape.gradient(result, x).to_vector();
      EXPECT_EQ(gradient[0], 0) << dtype_name(dtype);
      EXPECT_EQ(gradient[1], 0) << dtype_name(dtype);
      EXPECT_TRUE(std::isnan(gradient[2])) << dtype_name(dtype);
    }
  }
}

TEST(ElementLimits, TheOriginHasNoAngle) {
  const Tensor a = from_vector({3}, {0, 0, 2}), b = from_vector({3}, {0, 2, 0});
  GradientTape tape;
  const Tensor all = sum(atan2(a, b));
  const std::vector<Tensor> gradients = tape.gradient(all, {a, b});
  EXPECT_EQ(gradients[0].to_vector(), (Values{0, 0.5, 0}));
  EXPECT_EQ(gradients[1].to_vector(), (Values{0, 0, -0.5}));
}

TEST(ElementLimits, ActivationsFarFromZero) {
  const Tensor x = from_vector({4}, {-1e4, -100, 100, 1e4}, DType::kF64);
  GradientTape tape;
  const Tensor all = sum(mish(x)) + sum(celu(x)) + sum(log_sigmoid(x)) + sum(softsign(x));
  for (const double g : tape.gradient(all, x).to_vector()) EXPECT_TRUE(std::isfinite(g));
  EXPECT_EQ(log_sigmoid(x).to_vector()[0], -1e4);
  EXPECT_EQ(hard_shrink(from_vector({2}, {0.5, -0.5})).to_vector(), (Values{0, 0}));
  EXPECT_ERROR(celu(x, 0), ErrorCode::kInvalidArgument, "alpha must be > 0, got 0");
  EXPECT_ERROR(soft_shrink(x, -1), ErrorCode::kInvalidArgument, "threshold must be >= 0, got -1");
  EXPECT_ERROR(glu(zeros({3})), ErrorCode::kShapeMismatch, "does not divide into 2 pieces");
  EXPECT_ERROR(prelu(zeros({2}), zeros({3, 1})), ErrorCode::kShapeMismatch, "does not broadcast to f32(2)");
}

}  // namespace
}  // namespace isochron
