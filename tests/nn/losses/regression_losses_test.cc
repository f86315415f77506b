#include "isochron/nn/losses/regression_losses.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "nn/losses/loss_checks.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

class RegressionLossesOfPyTorch : public GoldenLosses {
 protected:
  RegressionLossesOfPyTorch() : GoldenLosses("losses_torch.npz") {}
};

TEST_F(RegressionLossesOfPyTorch, SmoothL1) {
  const Tensor y = array("m.y");
  check_over_all("m.smooth", "m.x", LossOptions{},
                 [&](const Tensor& x, const auto& options) { return smooth_l1(x, y, 1.3, options); });
  check_over_all("m.smooth_zero", "m.x", LossOptions{},
                 [&](const Tensor& x, const auto& options) { return smooth_l1(x, y, 0, options); });
}

class RegressionLossesOfKeras : public GoldenLosses {
 protected:
  RegressionLossesOfKeras() : GoldenLosses("losses_keras.npz") {}
};

TEST_F(RegressionLossesOfKeras, OfRatios) {
  const LossOptions rows{.reduction = Reduction::kNone};
  check("percentage", "x",
        [&](const Tensor& x) { return mean_absolute_percentage_error(x, array("sign"), rows); });
  check("logarithmic", "rates",
        [&](const Tensor& x) { return mean_squared_logarithmic_error(x, array("counts"), rows); });
}

TEST(RegressionLosses, HaveTheGradientOfTheirFormula) {
  const Tensor x = from_vector({2, 2}, {0.3, 1.2, 3.8, 2.1}, DType::kF64);
  const Tensor t = from_vector({2, 2}, {0.5, -1, 0.25, 7}, DType::kF64);
  expect_gradient([&](const Tensor& in) { return smooth_l1(in, t, 0.7); }, x);
  expect_gradient([&](const Tensor& in) { return mean_absolute_percentage_error(in, t); }, x);
  expect_gradient([&](const Tensor& in) { return mean_squared_logarithmic_error(in, t); }, x);
}

TEST(RegressionLosses, StayFiniteAtZero) {
  const Tensor zero = zeros({1}), one = ones({1});
  EXPECT_EQ(loss_and_gradient([&](const Tensor& x) { return smooth_l1(x, zero, 0); }, zero),
            (std::vector<double>{0, 0}));
  EXPECT_NEAR(mean_absolute_percentage_error(one, zero).item<double>(), 1e9, 1e3);
  EXPECT_NEAR(mean_squared_logarithmic_error(full({1}, -3), zero).item<double>(), 0, 1e-12)
      << "both count as 1e-7";
}

// 300^2 and 1e-7 are beyond f16.
TEST(RegressionLosses, Hold16Bits) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor large = full({2}, 300, dtype), zero = zeros({2}, dtype);
    EXPECT_EQ(smooth_l1(large, zero, 256).dtype(), dtype);
    EXPECT_EQ(cast(smooth_l1(large, zero, 512), DType::kF64).item<double>(),
              dtype == DType::kF16 ? 87.875 : 88)
        << "90000 / 1024";
    EXPECT_EQ(cast(mean_absolute_percentage_error(large, full({2}, 600, dtype)), DType::kF64).item<double>(),
              50);
    EXPECT_NEAR(cast(mean_squared_logarithmic_error(large, zero), DType::kF64).item<double>(), 32.57, 0.2);
  }
}

TEST(RegressionLosses, RejectWrongCalls) {
  const Tensor x = ones({2, 3});
  EXPECT_ERROR(smooth_l1(x, x, -1), ErrorCode::kInvalidArgument, "beta must be >= 0");
  EXPECT_ERROR(smooth_l1(x, ones({2})), ErrorCode::kShapeMismatch, "[smooth_l1]");
  EXPECT_ERROR(mean_absolute_percentage_error(x, ones({2, 3}, DType::kI32)), ErrorCode::kDtypeMismatch,
               "cast one");
  EXPECT_ERROR(mean_squared_logarithmic_error(x, Tensor()), ErrorCode::kInvalidArgument, "undefined");
}

}  // namespace
}  // namespace isochron::nn
