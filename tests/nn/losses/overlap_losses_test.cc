#include "isochron/nn/losses/overlap_losses.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "nn/losses/loss_checks.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

class OverlapLossesOfKeras : public GoldenLosses {
 protected:
  OverlapLossesOfKeras() : GoldenLosses("losses_keras.npz") {}
};

TEST_F(OverlapLossesOfKeras, OfOneRegionAndOfMany) {
  const Tensor t = array("binary");
  const OverlapOptions rows{.axes = {1}, .of_regions = {.reduction = Reduction::kNone}};
  check("dice", "p", [&](const Tensor& p) { return dice_loss(p, t); });
  check("tversky", "p", [&](const Tensor& p) { return tversky_loss(p, t, 0.3, 0.9); });
  check("dice_rows", "p", [&](const Tensor& p) { return dice_loss(p, t, rows); });
  check("tversky_rows", "p", [&](const Tensor& p) { return tversky_loss(p, t, 0.5, 0.5, rows); });
}

TEST(OverlapLosses, HaveTheGradientOfTheirFormula) {
  const Tensor p = from_vector({2, 2}, {0.3, 0.8, 0.1, 0.6}, DType::kF64);
  const Tensor t = from_vector({2, 2}, {0, 1, 1, 0.4}, DType::kF64);
  expect_gradient([&](const Tensor& in) { return dice_loss(in, t, {.axes = {-1}}); }, p);
  expect_gradient([&](const Tensor& in) { return tversky_loss(in, t, 0.7, 0.1); }, p);
}

TEST(OverlapLosses, OfNothingAreOneAndOfTheSameZero) {
  const Tensor nothing = zeros({2, 3}), all = ones({2, 3});
  EXPECT_EQ(dice_loss(nothing, nothing).item<double>(), 1);
  EXPECT_NEAR(dice_loss(all, all).item<double>(), 0, 1e-6);
  EXPECT_NEAR(tversky_loss(all, all, 5, 2).item<double>(), 0, 1e-6);
  EXPECT_EQ(tversky_loss(all, nothing, 1, 0).item<double>(), 1);
}

TEST(OverlapLosses, WeighSamples) {
  const Tensor p = from_vector({2, 2}, {1, 1, 0, 0}), t = ones({2, 2});
  const OverlapOptions weighed{
      .axes = {1},
      .of_regions = {.reduction = Reduction::kWeightedMean, .sample_weights = from_vector({2}, {1, 3})}};
  EXPECT_NEAR(dice_loss(p, t, weighed).item<double>(), 0.75, 1e-6);
}

// 40,000 elements are no number of bf16, and their sum is beyond f16.
TEST(OverlapLosses, Hold16Bits) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor p = full({1, 100000}, 0.5, dtype), t = ones({1, 100000}, dtype);
    EXPECT_EQ(dice_loss(p, t).dtype(), dtype);
    EXPECT_NEAR(cast(dice_loss(p, t, {.axes = {1}}), DType::kF64).item<double>(), 1.0 / 3, 2e-3);
    EXPECT_NEAR(cast(tversky_loss(p, t), DType::kF64).item<double>(), 1.0 / 3, 2e-3);
  }
}

TEST(OverlapLosses, RejectWrongCalls) {
  const Tensor x = ones({2, 3});
  EXPECT_ERROR(dice_loss(x, ones({2})), ErrorCode::kShapeMismatch, "[dice_loss]");
  EXPECT_ERROR(tversky_loss(x, x, -1, 1), ErrorCode::kInvalidArgument, "alpha and beta");
  EXPECT_ERROR(dice_loss(x, x, {.of_regions = {.sample_weights = ones({2})}}), ErrorCode::kInvalidArgument,
               "leave the first axis out");
  const Tensor none = zeros({0, 4});
  for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}}) {
    EXPECT_ERROR(dice_loss(none, none, {.axes = axes}), ErrorCode::kInvalidArgument, "empty");
    EXPECT_ERROR(tversky_loss(none, none, 0.5, 0.5, {.axes = axes}), ErrorCode::kInvalidArgument, "empty");
  }
  EXPECT_ERROR(dice_loss(x, x, {.axes = {5}}), ErrorCode::kOutOfRange, "axis");
}

}  // namespace
}  // namespace isochron::nn
