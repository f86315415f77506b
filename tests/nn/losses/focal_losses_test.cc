#include "isochron/nn/losses/focal_losses.h"

#include <cmath>
#include <limits>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/softmax.h"
#include "nn/losses/loss_checks.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

class FocalLossesOfKeras : public GoldenLosses {
 protected:
  FocalLossesOfKeras() : GoldenLosses("losses_keras.npz") {}
};

TEST_F(FocalLossesOfKeras, Binary) {
  const BinaryFocalOptions plain{.reduction = Reduction::kNone};
  const BinaryFocalOptions all{
      .reduction = Reduction::kNone, .gamma = 1.5, .alpha = 0.3, .label_smoothing = 0.1};
  for (const auto& [name, options] : {std::pair("binary_focal", plain), std::pair("binary_focal_all", all)}) {
    check(name, "p",
          [&](const Tensor& p) { return binary_focal_cross_entropy(p, array("binary"), options); });
    check(std::string(name) + "_logits", "x", [&](const Tensor& x) {
      return binary_focal_cross_entropy_from_logits(x, array("binary"), options);
    });
  }
}

TEST_F(FocalLossesOfKeras, Categorical) {
  const CategoricalFocalOptions plain{.reduction = Reduction::kNone};
  const CategoricalFocalOptions all{.reduction = Reduction::kNone,
                                    .gamma = 1.5,
                                    .alpha = 1,
                                    .class_weights = array("alphas"),
                                    .label_smoothing = 0.1};
  for (const auto& [name, options] :
       {std::pair("categorical_focal", plain), std::pair("categorical_focal_all", all)}) {
    check(name, "p",
          [&](const Tensor& p) { return categorical_focal_cross_entropy(p, array("classes"), options); });
    check(std::string(name) + "_logits", "x",
          [&](const Tensor& x) { return softmax_focal_cross_entropy(x, array("classes"), options); });
  }
}

TEST(FocalLosses, HaveTheGradientOfTheirFormula) {
  const Tensor x = from_vector({2, 3}, {0.3, -1.2, 0.8, 2.1, -0.4, 0.1}, DType::kF64);
  const Tensor t = from_vector({2, 3}, {0, 1, 0, 0, 0.25, 0.75}, DType::kF64);
  for (const double gamma : {0.0, 0.5, 2.0}) {
    expect_gradient(
        [&](const Tensor& in) { return binary_focal_cross_entropy_from_logits(in, t, {.gamma = gamma}); }, x);
    expect_gradient([&](const Tensor& in) { return binary_focal_cross_entropy(in, t, {.gamma = gamma}); },
                    sigmoid(x));
    expect_gradient([&](const Tensor& in) { return softmax_focal_cross_entropy(in, t, {.gamma = gamma}); },
                    x);
    expect_gradient(
        [&](const Tensor& in) { return categorical_focal_cross_entropy(in, t, {.gamma = gamma}); },
        softmax(x));
  }
}

TEST(FocalLosses, WithGammaZeroAreCrossEntropies) {
  const Tensor x = from_vector({2, 2}, {0.3, -1.2, 80, -3}, DType::kF64);
  const Tensor t = from_vector({2, 2}, {0, 1, 0, 1}, DType::kF64);
  EXPECT_TRUE(near(binary_focal_cross_entropy_from_logits(x, t, {.gamma = 0}),
                   nn::binary_cross_entropy_from_logits(x, t), 1e-14));
  EXPECT_TRUE(near(softmax_focal_cross_entropy(x, t, {.gamma = 0, .alpha = 1}),
                   nn::softmax_cross_entropy(x, t), 1e-14));
}

// Where a sigmoid is 0 or 1 exactly, a power of 0 has no gradient.
TEST(FocalLosses, StayFiniteWherePredictionsAreCertain) {
  const std::vector<double> certain = {150, -150, 150, -150};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const Tensor x = from_vector({2, 2}, certain, dtype), t = from_vector({2, 2}, {1, 0, 0, 1}, dtype);
    for (const double gamma : {0.0, 0.5, 2.0}) {
      const auto finite = [&](auto loss, const Tensor& in) {
        const std::vector<double> both =
            loss_and_gradient([&](const Tensor& p) { return cast(loss(p), DType::kF64); }, in);
        for (const double value : both)
          EXPECT_TRUE(std::isfinite(value)) << dtype_name(dtype) << " " << gamma;
        return both[0];
      };
      const Tensor p = sigmoid(x);
      finite([&](const Tensor& in) { return binary_focal_cross_entropy(in, t, {.gamma = gamma}); }, p);
      finite([&](const Tensor& in) { return categorical_focal_cross_entropy(in, t, {.gamma = gamma}); }, p);
      EXPECT_EQ(finite(
                    [&](const Tensor& in) {
                      return binary_focal_cross_entropy_from_logits(in, t, {.gamma = gamma});
                    },
                    x),
                75);
      EXPECT_EQ(finite(
                    [&](const Tensor& in) {
                      return softmax_focal_cross_entropy(in, t, {.gamma = gamma, .alpha = 1});
                    },
                    x),
                150);
    }
  }
}

// 1 - p of logit 20 is 2e-9, which a difference from 1 loses in f32.
TEST(FocalLosses, OfNearlyRightLogitsKeepTheirDigits) {
  const Tensor x = from_vector({1, 2}, {20, -20}), t = from_vector({1, 2}, {1, 0});
  const auto loss = [&](DType dtype) {
    const Tensor losses = binary_focal_cross_entropy_from_logits(cast(x, dtype), cast(t, dtype),
                                                                 {.reduction = Reduction::kNone, .gamma = 1});
    return cast(losses, DType::kF64);
  };
  EXPECT_TRUE(near(loss(DType::kF32), loss(DType::kF64), 2e-6));
}

TEST(FocalLosses, AnImpossibleClassThatIsNoTargetCostsNothing) {
  const Tensor two = from_vector({1, 2}, {0.5, -0.25}, DType::kF64);
  const Tensor three =
      from_vector({1, 3}, {0.5, -0.25, -std::numeric_limits<double>::infinity()}, DType::kF64);
  for (const double gamma : {0.0, 0.5, 2.0}) {
    const auto of = [&](const Tensor& x, const std::vector<double>& targets) {
      const Tensor t = from_vector(x.shape(), targets, DType::kF64);
      return loss_and_gradient(
          [&](const Tensor& in) { return softmax_focal_cross_entropy(in, t, {.gamma = gamma}); }, x);
    };
    std::vector<double> expected = of(two, {0, 1});
    expected.push_back(0);
    const std::vector<double> got = of(three, {0, 1, 0});
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-15) << gamma << " " << i;
  }
}

// The square of the smallest number of f32 has no inverse in it.
TEST(FocalLosses, OfRootsHaveASecondGradient) {
  constexpr double kGamma = 0.5;
  const auto second = [](auto loss, const Tensor& x) {
    GradientTape outer(true);
    outer.watch(x);
    GradientTape inner(true);
    inner.watch(x);
    return outer.gradient(sum(inner.gradient(sum(loss(x)), x)), x).to_vector();
  };
  const auto check = [&](auto loss, const Tensor& x) {
    const std::vector<double> got = second(loss, x), expected = second(loss, cast(x, DType::kF64));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
  };
  const Tensor x = from_vector({4, 2}, {60, -60, 150, -150, -60, 60, 2, -1});
  const Tensor t = from_vector({4, 2}, {1, 0, 1, 0, 1, 0, 1, 0});
  check(
      [&](const Tensor& in) {
        return binary_focal_cross_entropy_from_logits(in, cast(t, in.dtype()), {.gamma = kGamma});
      },
      x);
  check(
      [&](const Tensor& in) {
        return softmax_focal_cross_entropy(in, cast(t, in.dtype()), {.gamma = kGamma});
      },
      x);
}

TEST(FocalLosses, WeighSamplesAndClasses) {
  const Tensor x = zeros({2, 2}, DType::kF64), t = from_vector({2, 2}, {1, 0, 0, 1}, DType::kF64);
  const Tensor weights = from_vector({2}, {1, 3}, DType::kF64);
  EXPECT_NEAR(softmax_focal_cross_entropy(
                  x, t, {.sample_weights = weights, .gamma = 1, .alpha = 1, .class_weights = weights})
                  .item<double>(),
              (1 * 1 + 3 * 3) / 2.0 * 0.5 * std::log(2.0), 1e-14);
  EXPECT_NEAR(
      binary_focal_cross_entropy_from_logits(
          x, t, {.reduction = Reduction::kWeightedMean, .sample_weights = weights, .gamma = 1, .alpha = 0.25})
          .item<double>(),
      0.5 * 0.5 * std::log(2.0), 1e-14);
}

TEST(FocalLosses, RejectWrongCalls) {
  const Tensor x = ones({2, 3}), rows = ones({2});
  EXPECT_ERROR(binary_focal_cross_entropy(x, rows), ErrorCode::kShapeMismatch,
               "[binary_focal_cross_entropy]");
  EXPECT_ERROR(binary_focal_cross_entropy_from_logits(x, zeros({2, 3}, DType::kI32)),
               ErrorCode::kDtypeMismatch, "cast one");
  EXPECT_ERROR(binary_focal_cross_entropy(x, x, {.gamma = -1}), ErrorCode::kInvalidArgument, "gamma");
  EXPECT_ERROR(binary_focal_cross_entropy(x, x, {.alpha = 2}), ErrorCode::kInvalidArgument, "alpha");
  EXPECT_ERROR(binary_focal_cross_entropy(x, x, {.label_smoothing = 2}), ErrorCode::kInvalidArgument,
               "[0, 1]");
  EXPECT_ERROR(categorical_focal_cross_entropy(rows, rows), ErrorCode::kShapeMismatch, "(N, ..., C)");
  EXPECT_ERROR(softmax_focal_cross_entropy(x, ones({2, 2})), ErrorCode::kShapeMismatch,
               "[softmax_focal_cross_entropy]");
  EXPECT_ERROR(softmax_focal_cross_entropy(x, x, {.class_weights = rows}), ErrorCode::kShapeMismatch,
               "class weights");
}

}  // namespace
}  // namespace isochron::nn
