// Adaptive pooling against PyTorch's (tests/golden/make_functions_torch.py) and at its limits.
#include <gmock/gmock.h>

#include <cmath>

#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "ops/golden_functions.h"
#include "support/expect_error.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

using testing::ElementsAre;

constexpr auto kAdaptivePools = {adaptive_average_pool, adaptive_max_pool};

using AdaptivePooling = GoldenFunctions;

TEST_F(AdaptivePooling, ResultsAndGradientsAreThoseOfPyTorch) {
  const std::pair<const char*, Dims> cases[] = {{"1d", {4}},        {"divides", {3, 2}}, {"ragged", {3, 4}},
                                                {"larger", {7, 5}}, {"kept", {-1, 7}},   {"3d", {3, 2, 1}}};
  for (const auto& [name, size] : cases) {
    check_several(fmt::format("adaptive_average_pool_{}", name),
                  [&](In in) { return adaptive_average_pool(in[0], size); });
    check_several(fmt::format("adaptive_max_pool_{}", name),
                  [&](In in) { return adaptive_max_pool(in[0], size); });
  }
}

TEST(AdaptivePoolingGradients, AgreeWithDifferences) {
  constexpr double kStep = 1e-6;
  const Tensor x = waves({1, 5, 7, 2}, 0.9, DType::kF64);
  for (const auto pool : kAdaptivePools) {
    const auto loss = [&](const Tensor& in) { return sum(square(pool(in, {3, 4}))); };
    GradientTape tape;
    const std::vector<double> dx = tape.gradient(loss(x), x).to_vector();
    for (size_t i = 0; i < dx.size(); ++i) {
      std::vector<double> up = x.to_vector(), down = up;
      up[i] += kStep;
      down[i] -= kStep;
      const double above = loss(from_vector(x.shape(), up, DType::kF64)).item<double>();
      const double below = loss(from_vector(x.shape(), down, DType::kF64)).item<double>();
      const double difference = (above - below) / (2 * kStep);
      EXPECT_NEAR(dx[i], difference, 1e-3 * std::abs(difference) + 1e-5) << i;
    }
  }
}

TEST(AdaptivePoolingOnDevices, IsTheCpus) {
  for (const auto pool : kAdaptivePools) {
    const auto pooled = [&](std::span<const Tensor> in) {
      GradientTape tape;
      tape.watch(in[0]);
      const Tensor y = pool(in[0], {3, 4});
      return std::vector<Tensor>{y, tape.gradient({&y, 1}, {&in[0], 1}, {&in[1], 1})[0]};
    };
    const std::vector<Tensor> arguments = {waves({2, 7, 10, 5}, 1.3), waves({2, 3, 4, 5}, 0.7)};
    const auto expected = results_of(pooled, arguments), got = results_of(pooled, arguments, 4);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_THAT(got[i], testing::Pointwise(testing::DoubleNear(1e-6), expected[i])) << i;
  }
}

TEST(AdaptivePoolingLimits, OnePixelIsTheGlobalPool) {
  const Tensor x = waves({2, 3, 5, 4}, 1.3);
  EXPECT_TRUE(near(adaptive_average_pool(x, {1, 1}), global_average_pool(x, true), 1e-6, 1e-6));
  EXPECT_EQ(adaptive_max_pool(x, {1, 1}).to_vector(), global_max_pool(x, true).to_vector());
  EXPECT_EQ(adaptive_max_pool(x, {-1, -1}).to_vector(), x.to_vector());
  EXPECT_EQ(adaptive_average_pool(x, {3, -1}).to_vector(), x.to_vector());
  for (const auto pool : kAdaptivePools)
    EXPECT_EQ(pool(zeros({0, 5, 5, 2}), {2, 3}).shape(), Shape({0, 2, 3, 2}));
}

TEST(AdaptivePoolingLimits, TheFirstOfEqualElementsTakesTheGradient) {
  // Windows [0, 2), [1, 4) and [3, 5).
  const Tensor x = from_vector({1, 5, 1}, {1, 7, 7, 2, 2});
  GradientTape tape;
  const Tensor y = adaptive_max_pool(x, {3});
  EXPECT_THAT(y.to_vector(), ElementsAre(7, 7, 2));
  EXPECT_THAT(tape.gradient(y, x).to_vector(), ElementsAre(0, 2, 0, 1, 0));
}

TEST(AdaptivePoolingLimits, NanStaysInItsWindows) {
  const Tensor x = from_vector({1, 5, 1}, {1, NAN, 3, 4, 5});
  for (const auto pool : kAdaptivePools) {
    const std::vector<double> y = pool(x, {3}).to_vector();
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_FALSE(std::isnan(y[2]));
  }
}

TEST(AdaptivePoolingLimits, Dtypes) {
  const Tensor x = from_vector({1, 5, 1}, {1, 2, 3, 4, 5});
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const Tensor y = adaptive_average_pool(cast(x, dtype), {2});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(near(y, from_vector({1, 2, 1}, {2, 4}), 1e-6)) << "the weights are thirds";
  }
  EXPECT_THAT(adaptive_max_pool(cast(x, DType::kF64), {2}).to_vector(), ElementsAre(3, 5));
  EXPECT_ERROR(adaptive_max_pool(cast(x, DType::kI32), {2}), ErrorCode::kDtypeMismatch, "f32 or f64");
  EXPECT_ERROR(adaptive_average_pool(cast(x, DType::kI32), {2}), ErrorCode::kDtypeMismatch,
               "must be floating");
}

TEST(AdaptivePoolingLimits, MistakesAreErrors) {
  const Tensor x = zeros({2, 5, 4, 3});
  for (const auto pool : kAdaptivePools) {
    EXPECT_ERROR(pool(x, {2}), ErrorCode::kShapeMismatch, "size (2) must have one extent for each of the 2");
    EXPECT_ERROR(pool(x, {2, 0}), ErrorCode::kInvalidArgument,
                 "the size of axis 2 is 0; expected at least 1, or -1 to keep its 4");
    EXPECT_ERROR(pool(x, {-2, 1}), ErrorCode::kInvalidArgument, "the size of axis 1 is -2");
    EXPECT_ERROR(pool(zeros({2, 0, 3}), {2}), ErrorCode::kInvalidArgument, "axis 1 of f32(2, 0, 3) is empty");
    EXPECT_ERROR(pool(zeros({2, 3}), {}), ErrorCode::kShapeMismatch, "(N, spatial..., C)");
    EXPECT_ERROR(pool(Tensor(), {1}), ErrorCode::kShapeMismatch, "got nothing");
    EXPECT_ERROR(pool(x, {(1 << 24) + 1, 1}), ErrorCode::kUnsupported, "at most 16777216");
  }
  EXPECT_ERROR(adaptive_max_pool(x, {0, 1}), ErrorCode::kInvalidArgument,
               "[adaptive_max_pool] the size of axis 1");
  EXPECT_ERROR(adaptive_max_pool(zeros({1, 2, 2, 2, 2, 1}), {1, 1, 1, 1}), ErrorCode::kShapeMismatch,
               "[adaptive_max_pool/max_pool]");
}

}  // namespace
}  // namespace isochron
