// Normalization layers as parts of a model: the moving averages of batch normalization in training, in
// inference and if frozen. golden_models_test.cc compares their arithmetic with PyTorch's.
#include "isochron/nn/layers/normalization.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

Tensor batch(int seed, const Shape& shape = {6, 2}) {
  Rng rng(static_cast<uint64_t>(seed));
  return from_vector(shape, init::normal(seed, 1 + seed)(shape, rng), DType::kF64);
}

/// Column means and variances of a batch of two channels, by definition.
std::array<std::vector<double>, 2> moments_of(const Tensor& x) {
  const std::vector<double> values = x.to_vector();
  std::vector<double> mean(2), variance(2);
  const double rows = static_cast<double>(values.size()) / 2;
  for (size_t i = 0; i < values.size(); ++i) mean[i % 2] += values[i] / rows;
  for (size_t i = 0; i < values.size(); ++i) variance[i % 2] += std::pow(values[i] - mean[i % 2], 2) / rows;
  return {mean, variance};
}

TEST(BatchNorm, AveragesOf16BitsReachTheMoments) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    BatchNorm norm({.momentum = 0.99, .scale = false, .center = false});
    std::vector<double> values;
    for (int row = 0; row < 8; ++row)
      values.insert(values.end(), {row % 2 == 0 ? 2.0 : 4.0, row % 2 * 1000.0});
    const Tensor x = from_vector({8, 2}, values, dtype);
    const TrainingScope training(true);
    for (int i = 0; i < 2000; ++i) norm(x);
    const std::vector<Variable> averages = norm.buffers();
    ASSERT_EQ(averages.size(), 2u);
    EXPECT_EQ(averages[0].dtype(), DType::kF32);
    EXPECT_NEAR(averages[0].tensor().to_vector()[0], 3, 0.01) << dtype_name(dtype);
    EXPECT_NEAR(averages[1].tensor().to_vector()[0], 1, 0.01) << dtype_name(dtype);
    EXPECT_NEAR(averages[1].tensor().to_vector()[1], 250'000, 1000) << "more than f16 holds";
    const TrainingScope inference(false);
    const std::vector<double> y = cast(norm(x), DType::kF64).to_vector();
    EXPECT_NEAR(y[0], -1, 0.02);
    EXPECT_NEAR(y[1], -1, 0.02);
  }
}

void expect_averages(BatchNorm& norm, const std::array<std::vector<double>, 2>& expected) {
  const std::vector<Variable> averages = norm.buffers();
  ASSERT_EQ(averages.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(near(averages[i], from_vector({2}, expected[i], DType::kF64), 1e-13, 1e-13))
        << averages[i].name();
  }
}

TEST(BatchNorm, ACapturedStepMovesItsAverages) {
  for (const bool unbiased : {false, true}) {
    BatchNorm norm({.momentum = 0.75, .unbiased_moving_variance = unbiased});
    auto step = capture([&](const Tensor& x) { return norm(x); });
    std::array<std::vector<double>, 2> expected{{{0, 0}, {1, 1}}};
    for (int i = 0; i < 5; ++i) {
      const Tensor x = batch(i);
      step(x);
      const auto moments = moments_of(x);
      for (size_t c = 0; c < 2; ++c) {
        expected[0][c] = 0.75 * expected[0][c] + 0.25 * moments[0][c];
        expected[1][c] = 0.75 * expected[1][c] + 0.25 * moments[1][c] * (unbiased ? 6.0 / 5 : 1);
      }
    }
    expect_averages(norm, expected);
    EXPECT_EQ(step.plan_count(), 1u);
  }
}

TEST(BatchNorm, InferenceUsesItsAveragesAndLeavesThem) {
  BatchNorm norm({.momentum = 0.5, .epsilon = 0});
  norm(batch(1));
  norm.parameters()[0].assign(from_vector({2}, {2, 3}, DType::kF64));
  norm.parameters()[1].assign(from_vector({2}, {-1, 5}, DType::kF64));
  const std::vector<double> mean = norm.buffers()[0].tensor().to_vector();
  const std::vector<double> variance = norm.buffers()[1].tensor().to_vector();
  const TrainingScope inference(false);
  const Tensor x = from_vector({1, 2}, {0.25, -4}, DType::kF64);
  const Tensor expected = from_vector(
      {1, 2},
      {(0.25 - mean[0]) / std::sqrt(variance[0]) * 2 - 1, (-4 - mean[1]) / std::sqrt(variance[1]) * 3 + 5},
      DType::kF64);
  auto captured = capture([&](const Tensor& in) { return norm(in); });
  EXPECT_TRUE(near(norm(x), expected, 1e-13));
  EXPECT_TRUE(near(captured(x), expected, 1e-13));
  expect_averages(norm, {mean, variance});
}

TEST(BatchNorm, TheBatchesOfOneStepAllCount) {
  // One layer called twice in a step: the second call updates the averages that the first has updated.
  BatchNorm norm({.momentum = 0.5});
  const Tensor a = batch(1), b = batch(2);
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    const Tensor first = norm(x);
    return std::pair(first, norm(y));
  });
  step(a, b);
  std::array<std::vector<double>, 2> expected = moments_of(a);
  for (size_t c = 0; c < 2; ++c) {
    expected[0][c] = 0.25 * expected[0][c] + 0.5 * moments_of(b)[0][c];
    expected[1][c] = 0.25 + 0.25 * expected[1][c] + 0.5 * moments_of(b)[1][c];
  }
  expect_averages(norm, expected);
}

TEST(BatchNorm, FrozenItComputesAsInInference) {
  Sequential model(Dense(2), BatchNorm());
  model(batch(1, {8, 3}));
  Module& norm = model[1];
  norm.set_trainable(false);
  const std::vector<double> before = norm.buffers()[0].tensor().to_vector();
  const Tensor x = batch(2, {8, 3});
  const std::vector<double> got = model(x).to_vector();
  EXPECT_EQ(norm.buffers()[0].tensor().to_vector(), before);
  {
    const TrainingScope inference(false);
    EXPECT_EQ(model(x).to_vector(), got);
  }
  norm.set_trainable(true);
  EXPECT_NE(model(x).to_vector(), got);
  EXPECT_NE(norm.buffers()[0].tensor().to_vector(), before);
}

TEST(BatchNorm, NoGradientGoesThroughItsAverages) {
  BatchNorm norm({.scale = false, .center = false});
  const Tensor x = batch(3);
  norm(x);
  GradientTape tape;
  const Tensor y = sum(norm(x) * batch(4));
  EXPECT_FALSE(tape.gradient(y, norm.buffers()[0]).defined());
}

/// The same by its definition, of f64.
Tensor instance_normed(const Tensor& x, double epsilon, const std::vector<double>& gamma,
                       const std::vector<double>& beta) {
  const size_t samples = static_cast<size_t>(x.extent(0)), channels = static_cast<size_t>(x.extent(-1));
  std::vector<double> values = x.to_vector();
  const size_t positions = values.size() / samples / channels;
  for (size_t n = 0; n < samples; ++n) {
    for (size_t c = 0; c < channels; ++c) {
      const auto at = [&](size_t p) -> double& { return values[(n * positions + p) * channels + c]; };
      double mean = 0, variance = 0;
      for (size_t p = 0; p < positions; ++p) mean += at(p) / static_cast<double>(positions);
      for (size_t p = 0; p < positions; ++p)
        variance += std::pow(at(p) - mean, 2) / static_cast<double>(positions);
      for (size_t p = 0; p < positions; ++p)
        at(p) = (at(p) - mean) / std::sqrt(variance + epsilon) * gamma[c] + beta[c];
    }
  }
  return from_vector(x.shape(), values, DType::kF64);
}

TEST(InstanceNorm, NormalizesEachChannelOfEachSample) {
  for (const Shape& shape : {Shape{3, 7, 4}, Shape{2, 5, 3, 4}, Shape{2, 2, 3, 2, 4}}) {
    SCOPED_TRACE(shape.str());
    const Tensor x = batch(2, shape);
    InstanceNorm plain;
    EXPECT_TRUE(near(plain(x), instance_normed(x, 1e-5, {1, 1, 1, 1}, {0, 0, 0, 0}), 1e-12, 1e-12));
    EXPECT_TRUE(plain.parameters().empty()) << "as PyTorch's: affine=False";

    InstanceNorm affine({.epsilon = 0.1, .affine = true});
    EXPECT_TRUE(near(affine(x), instance_normed(x, 0.1, {1, 1, 1, 1}, {0, 0, 0, 0}), 1e-12, 1e-12));
    const std::vector<double> gamma = {2, -1, 0.5, 3}, beta = {0.25, 4, -1, 0};
    ASSERT_EQ(affine.parameters().size(), 2u);
    affine.parameters()[0].assign(from_vector({4}, gamma, DType::kF64));
    affine.parameters()[1].assign(from_vector({4}, beta, DType::kF64));
    const Tensor want = instance_normed(x, 0.1, gamma, beta);
    auto captured = capture([&](const Tensor& in) { return affine(in); });
    EXPECT_TRUE(near(captured(x), want, 1e-12, 1e-12));
    const TrainingScope inference(false);
    EXPECT_TRUE(near(affine(x), want, 1e-12, 1e-12)) << "no running statistics";
  }
}

TEST(InstanceNorm, RefusesWrongCalls) {
  EXPECT_ERROR(InstanceNorm({.epsilon = -1}), ErrorCode::kInvalidArgument, "epsilon");
  EXPECT_ERROR(InstanceNorm()(ones({2, 3})), ErrorCode::kShapeMismatch, "at least 3 axes");
  InstanceNorm norm({.affine = true});
  norm(ones({2, 5, 3}));
  EXPECT_ERROR(norm(ones({2, 5, 4})), ErrorCode::kShapeMismatch, "built for 3 channels");
}

TEST(BatchNorm, RefusesWrongCalls) {
  EXPECT_ERROR(BatchNorm({.momentum = 1.5}), ErrorCode::kInvalidArgument, "momentum");
  EXPECT_ERROR(BatchNorm({.epsilon = -1}), ErrorCode::kInvalidArgument, "epsilon");
  BatchNorm norm;
  EXPECT_ERROR(norm(ones({3})), ErrorCode::kShapeMismatch, "at least 2 axes");
  EXPECT_ERROR(norm(ones({2, 3}, DType::kI32)), ErrorCode::kDtypeMismatch, "floating");
  norm(ones({2, 3}));
  EXPECT_ERROR(norm(ones({2, 4})), ErrorCode::kShapeMismatch, "built for 3 channels");
  GroupNorm groups(2);
  EXPECT_ERROR(groups(ones({2, 3})), ErrorCode::kInvalidArgument, "2 groups don't divide the 3 channels");
  EXPECT_TRUE(groups.parameters().empty());
  groups(ones({2, 4}));
}

}  // namespace
}  // namespace isochron::nn
