#include "isochron/nn/losses/likelihood_losses.h"

#include <cmath>
#include <limits>

#include "isochron/ops/elementwise/elementwise.h"
#include "nn/losses/loss_checks.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

class LikelihoodsOfPyTorch : public GoldenLosses {
 protected:
  LikelihoodsOfPyTorch() : GoldenLosses("losses_torch.npz") {}
};

TEST_F(LikelihoodsOfPyTorch, Poisson) {
  const auto loss = [&](const Tensor& x, const auto& o) { return poisson_nll(x, array("l.counts"), o); };
  check_over_all("l.poisson", "l.x", PoissonNllOptions{}, loss);
  check_over_all("l.poisson_full", "l.x", PoissonNllOptions{.full = true}, loss);
  check_over_all("l.poisson_rates", "l.rates",
                 PoissonNllOptions{.log_input = false, .full = true, .eps = 1e-3}, loss);
}

TEST_F(LikelihoodsOfPyTorch, Gaussian) {
  const Tensor x = array("l.x"), t = array("l.t"), variance = array("l.variance");
  check_over_all("l.gaussian", "l.x", GaussianNllOptions{},
                 [&](const Tensor& in, const auto& o) { return gaussian_nll(in, t, variance, o); });
  const auto of_variance = [&](const Tensor& v, const auto& o) { return gaussian_nll(x, t, v, o); };
  check_over_all("l.gaussian_variance", "l.variance", GaussianNllOptions{.full = true, .eps = 0.4},
                 of_variance);
  check_over_all("l.gaussian_rows", "l.row_variance", GaussianNllOptions{.eps = 0.4}, of_variance);
}

class LikelihoodsOfKeras : public GoldenLosses {
 protected:
  LikelihoodsOfKeras() : GoldenLosses("losses_keras.npz") {}
};

TEST_F(LikelihoodsOfKeras, Poisson) {
  check("poisson", "rates",
        [&](const Tensor& x) { return poisson(x, array("counts"), {.reduction = Reduction::kNone}); });
}

TEST(Likelihoods, HaveTheGradientOfTheirFormula) {
  const Tensor x = from_vector({2, 2}, {0.3, 1.2, 0.8, 2.1}, DType::kF64);
  const Tensor t = from_vector({2, 2}, {0, 1, 2.5, 7}, DType::kF64);
  const Tensor variance = from_vector({2, 1}, {0.4, 1.7}, DType::kF64);
  expect_gradient([&](const Tensor& in) { return poisson_nll(in, t); }, x);
  expect_gradient([&](const Tensor& in) { return poisson(in, t); }, x);
  expect_gradient([&](const Tensor& in) { return poisson_nll(x, in, {.full = true}); }, t + 0.1);
  expect_gradient([&](const Tensor& in) { return gaussian_nll(in, t, variance); }, x);
  expect_gradient([&](const Tensor& in) { return gaussian_nll(x, t, in); }, variance);
}

TEST(Likelihoods, ACountOfZeroHasNoLogarithm) {
  const Tensor t = zeros({1}, DType::kF64), x = zeros({1}, DType::kF64);
  EXPECT_EQ(loss_and_gradient([&](const Tensor& in) { return poisson_nll(x, in, {.full = true}); }, t),
            (std::vector<double>{1, 0}));
  for (const double value :
       loss_and_gradient([&](const Tensor& in) { return poisson(in, ones({1}, DType::kF64)); }, x)) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Likelihoods, AVarianceBelowEpsCanGrow) {
  const Tensor x = ones({1}), t = zeros({1});
  for (const double small : {0.0, 1e-9, -1e8}) {
    const std::vector<double> both = loss_and_gradient(
        [&](const Tensor& v) { return gaussian_nll(x, t, v, {.eps = 1e-4}); }, full({1}, small));
    EXPECT_NEAR(both[0], (std::log(1e-4) + 1e4) / 2, 0.01) << small;
    EXPECT_NEAR(both[1], (1e4 - 1e8) / 2, 100) << small;
  }
}

TEST(Likelihoods, AnInfiniteVarianceIsNoNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(loss_and_gradient([](const Tensor& v) { return gaussian_nll(ones({1}), zeros({1}), v); },
                              full({1}, infinity)),
            (std::vector<double>{infinity, 0}));
}

// e^12 and a squared error of 90,000 overflow f16; eps vanishes next to numbers in f16.
TEST(Likelihoods, Hold16Bits) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto check = [&](const Tensor& loss, double expected) {
      EXPECT_EQ(loss.dtype(), dtype);
      EXPECT_NEAR(cast(loss, DType::kF64).item<double>(), expected, 8e-3 * std::fabs(expected));
    };
    check(poisson_nll(cast(from_vector({8}, {12, 0, 0, 0, 0, 0, 0, 0}), dtype), zeros({8}, dtype)),
          (std::exp(12.0) + 7) / 8);
    check(poisson(zeros({1}, dtype), ones({1}, dtype)), -std::log(1e-7));
    check(gaussian_nll(full({1}, 300, dtype), zeros({1}, dtype), full({1}, 100, dtype)),
          (std::log(100.0) + 900) / 2);
    check(gaussian_nll(zeros({1}, dtype), zeros({1}, dtype), zeros({1}, dtype)), std::log(1e-6) / 2);
  }
}

TEST(Likelihoods, WeighSamples) {
  const Tensor x = zeros({2}, DType::kF64), t = from_vector({2}, {0, 3}, DType::kF64);
  const Tensor weights = from_vector({2}, {1, 3}, DType::kF64), v = ones({2}, DType::kF64);
  EXPECT_EQ(poisson_nll(x, t, {.sample_weights = weights}).item<double>(), 2);
  EXPECT_EQ(gaussian_nll(x, t, v, {.reduction = Reduction::kWeightedMean, .sample_weights = weights})
                .item<double>(),
            13.5 / 4);
}

TEST(Likelihoods, RejectWrongCalls) {
  const Tensor x = ones({2, 3}), rows = ones({2});
  EXPECT_ERROR(poisson_nll(x, rows), ErrorCode::kShapeMismatch, "[poisson_nll]");
  EXPECT_ERROR(poisson_nll(x, ones({2, 3}, DType::kI32)), ErrorCode::kDtypeMismatch, "cast one");
  EXPECT_ERROR(gaussian_nll(x, rows, x), ErrorCode::kShapeMismatch, "[gaussian_nll]");
  EXPECT_ERROR(gaussian_nll(x, x, rows), ErrorCode::kShapeMismatch, "(2)");
  EXPECT_ERROR(gaussian_nll(ones({2, 2}), ones({2, 2}), rows), ErrorCode::kShapeMismatch,
               "give (N, 1) for one a row");
  EXPECT_EQ(gaussian_nll(x, x, full({}, 1)).item<double>(), 0);
  EXPECT_ERROR(poisson_nll(x, x, {.eps = -1e-8}), ErrorCode::kInvalidArgument, "eps must be >= 0");
  EXPECT_ERROR(gaussian_nll(ones({2, 1}), ones({2, 1}), x), ErrorCode::kShapeMismatch,
               "the variance f32(2, 3) must broadcast");
  EXPECT_ERROR(gaussian_nll(x, x, ones({2, 1}, DType::kF64)), ErrorCode::kDtypeMismatch, "f64(2, 1)");
  EXPECT_ERROR(gaussian_nll(x, x, Tensor()), ErrorCode::kInvalidArgument, "the variance is undefined");
  EXPECT_ERROR(gaussian_nll(x, x, x, {.eps = 0}), ErrorCode::kInvalidArgument, "eps must be > 0");
}

}  // namespace
}  // namespace isochron::nn
