// Distributions beside PyTorch's (tests/golden/make_functions_torch.py), and their samples.
#include "isochron/nn/distributions/distributions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "ops/golden_functions.h"
#include "support/expect_error.h"

namespace isochron::distributions {
namespace {

using Values = std::vector<double>;

class Distributions : public GoldenFunctions {
 protected:
  template <class Distribution>
  static Tensor density(const Distribution& distribution, const Tensor& x) {
    return concatenate({flatten(distribution.log_prob(x)), flatten(distribution.entropy())});
  }
};

constexpr double kTrigamma = 1e-9;  // PyTorch's has an error of about 1e-10

TEST_F(Distributions, DensitiesAndEntropiesAreThoseOfPyTorch) {
  check_several("normal", [](In in) { return density(Normal(in[0], exp(in[1])), in[2]); });
  check_several("normal_cdf", [](In in) { return Normal(in[0], exp(in[1])).cdf(in[2]); });
  check_several("laplace", [](In in) { return density(Laplace(in[0], exp(in[1])), in[2]); });
  check_several("exponential", [](In in) { return density(Exponential(exp(in[0])), exp(in[1])); });
  check_several("bernoulli", [](In in) {
    return density(Bernoulli(in[0]), cast(in[1] > 0.0, DType::kF64) + in[1] * 0.0);
  });
  check_several("categorical", [](In in) {
    return density(Categorical(in[0]), from_vector({3}, {2, 0, 3}, DType::kI64));
  });
  check_several(
      "gamma", [](In in) { return density(Gamma(exp(in[0]), exp(in[1])), exp(in[2])); }, kTrigamma);
  check_several(
      "beta", [](In in) { return density(Beta(exp(in[0]), exp(in[1])), sigmoid(in[2])); }, kTrigamma);
  check_several(
      "dirichlet", [](In in) { return density(Dirichlet(exp(in[0])), softmax(in[1])); }, kTrigamma);
  check_several("poisson", [](In in) {
    return Poisson(exp(in[0])).log_prob(reshape(cast(arange(12), DType::kF64), {3, 4}));
  });
  check_several(
      "tanh_normal", [](In in) { return TanhNormal(in[0], exp(in[1])).log_prob(tanh(in[2])); }, 1e-11);
}

TEST_F(Distributions, DivergencesAreThoseOfPyTorch) {
  check_several("normal_kl",
                [](In in) { return kl_divergence(Normal(in[0], exp(in[1])), Normal(in[2], exp(in[3]))); });
  check_several("laplace_kl",
                [](In in) { return kl_divergence(Laplace(in[0], exp(in[1])), Laplace(in[2], exp(in[3]))); });
  check_several("bernoulli_kl", [](In in) { return kl_divergence(Bernoulli(in[0]), Bernoulli(in[1])); });
  check_several("categorical_kl",
                [](In in) { return kl_divergence(Categorical(in[0]), Categorical(in[1])); });
  check_several(
      "gamma_kl",
      [](In in) { return kl_divergence(Gamma(exp(in[0]), exp(in[1])), Gamma(exp(in[2]), exp(in[3]))); },
      kTrigamma);
}

/// Mean and deviation over the leading axis.
void expect_moments(const Tensor& samples, const Values& means, const Values& deviations) {
  const Values mean_of = mean(samples, {0}).to_vector(),
               deviation_of = standard_deviation(samples, {0}).to_vector();
  for (size_t i = 0; i < means.size(); ++i) {
    const double standard_error = deviations[i] / std::sqrt(static_cast<double>(samples.extent(0)));
    EXPECT_NEAR(mean_of[i], means[i], 5 * standard_error) << i;
    EXPECT_NEAR(deviation_of[i], deviations[i], 12 * standard_error) << i;
  }
}

TEST(Samples, HaveTheMomentsOfTheirDistribution) {
  const Shape many{40000};
  const Tensor a = from_vector({2}, {0.5, -2}), b = from_vector({2}, {1.5, 0.25});
  expect_moments(Normal(a, b).sample(many), {0.5, -2}, {1.5, 0.25});
  expect_moments(Laplace(a, b).sample(many), {0.5, -2}, {1.5 * M_SQRT2, 0.25 * M_SQRT2});
  expect_moments(Exponential(b).sample(many), {1 / 1.5, 4}, {1 / 1.5, 4});
  const double p = 1 / (1 + std::exp(-0.5)), q = 1 / (1 + std::exp(2.0));
  expect_moments(Bernoulli(a).sample(many), {p, q}, {std::sqrt(p * (1 - p)), std::sqrt(q * (1 - q))});
  const Tensor classes = Categorical(from_vector({2, 3}, {0, 0, -INFINITY, 5, 0, 5})).sample(many);
  EXPECT_EQ(classes.shape(), Shape({40000, 2}));
  EXPECT_EQ(classes.dtype(), DType::kI64);
  EXPECT_EQ(max(classes, {0}).to_vector(), (Values{1, 2}));
  EXPECT_NEAR(mean(cast(classes, DType::kF32), {0}).to_vector()[0], 0.5, 0.02);
}

TEST(Samples, AreReparameterized) {
  const Tensor location = full({3}, 1), scale = full({3}, 2);
  GradientTape tape;
  const Tensor x = Normal(location, scale).sample(), y = Laplace(location, scale).sample();
  EXPECT_EQ(tape.gradient(sum(x) + sum(y), location).to_vector(), (Values{2, 2, 2}));
  GradientTape second;
  const Tensor z = Normal(location, scale).sample();
  const Values to_scale = second.gradient(sum(z), scale).to_vector();
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(to_scale[i], (z.to_vector()[i] - 1) / 2, 1e-6);
  GradientTape third;
  const Tensor steps = Bernoulli(location).sample();
  EXPECT_EQ(third.gradient(sum(steps * location), location).to_vector(), steps.to_vector());
}

TEST(Samples, OfSquashedNormalsKeepTheirLogProbability) {
  const TanhNormal near(zeros({1000}), full({1000}, 1.0));
  const TanhNormal::Draw draw = near.sample();
  const Values direct = near.log_prob(draw.action).to_vector(), kept = draw.log_prob.to_vector();
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_NEAR(direct[i], kept[i], 2e-3 * (1 + std::abs(kept[i]))) << i;
  const TanhNormal far(full({4}, 50), full({4}, 1.0));
  GradientTape tape;
  const TanhNormal::Draw end = far.sample();
  EXPECT_EQ(end.action.to_vector(), (Values{1, 1, 1, 1}));
  for (const double log_prob : end.log_prob.to_vector()) EXPECT_NEAR(log_prob, 2 * 50 - 2 * M_LN2, 15);
}

TEST(Samples, AreDrawnAnewByEachReplay) {
  auto draw = capture([](const Tensor& mean) { return Normal(mean, ones({})).sample(); });
  const Tensor zero = zeros({4});
  const Values first = draw(zero).to_vector();
  EXPECT_NE(draw(zero).to_vector(), first);
}

TEST(DistributionLimits, ClassesAndCountsThatDontOccur) {
  const Tensor logits = from_vector({2}, {0, -INFINITY});
  GradientTape tape;
  const Tensor entropy = Categorical(logits).entropy();
  EXPECT_EQ(entropy.item<float>(), 0);
  EXPECT_EQ(kl_divergence(Categorical(logits), Categorical(zeros({2}))).item<float>(), std::log(2.0f));
  EXPECT_EQ(Poisson(zeros({})).log_prob(zeros({})).item<float>(), 0);
  EXPECT_EQ(Poisson(zeros({})).log_prob(ones({})).item<float>(), -INFINITY);
  // The exponent of x is 0, but its gradient isn't.
  const Tensor concentration = ones({2}, DType::kF64), x = full({2}, 0.5, DType::kF64);
  GradientTape of_shares;
  EXPECT_NEAR(of_shares.gradient(Dirichlet(concentration).log_prob(x), concentration).to_vector()[0],
              1 + std::log(0.5), 1e-14);
}

TEST(DistributionLimits, ParametersAreChecked) {
  EXPECT_ERROR(Normal(zeros({2}), zeros({3})), ErrorCode::kShapeMismatch, "Normal");
  EXPECT_ERROR(Normal(zeros({2}), zeros({2}, DType::kF64)), ErrorCode::kDtypeMismatch, "differ; cast one");
  EXPECT_ERROR(Gamma(zeros({2}, DType::kF16), zeros({2}, DType::kF16)), ErrorCode::kDtypeMismatch,
               "[Gamma] parameters must be f32 or f64, got f16(2)");
  EXPECT_ERROR(Bernoulli(Tensor()), ErrorCode::kInvalidArgument, "[Bernoulli] a parameter is undefined");
  EXPECT_ERROR(Categorical(zeros({})), ErrorCode::kShapeMismatch, "expected (..., C) with C >= 1, got f32()");
  EXPECT_ERROR(Dirichlet(zeros({2, 0})), ErrorCode::kShapeMismatch, "got f32(2, 0)");
}

}  // namespace
}  // namespace isochron::distributions
