// Products of factors in 8 bits: rounding, scales, gradients, and their use in dense layers.
#include "isochron/ops/elementwise/float8.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "isochron/autograd/autograd.h"
#include "isochron/backends/cpu/elementwise/float8_functions.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/elementwise/float8_numbers.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

using ops::element::E4M3;
using ops::element::E5M2;

Tensor normal(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = static_cast<float>(rng.normal());
  return from_vector(shape, values, DType::kF32);
}

/// A history that contains `before`, followed by a newest value of 0.
std::vector<float> history_of(std::vector<float> before) {
  std::vector<float> history(static_cast<size_t>(kFloat8History), 0.0F);
  std::copy(before.rbegin(), before.rend(), history.rbegin() + 1);
  return history;
}
Tensor history_tensor(const std::vector<float>& before) {
  const std::vector<float> history = history_of(before);
  return from_vector({kFloat8History}, {history.begin(), history.end()}, DType::kF32);
}

template <typename Format>
void expect_golden(const std::string& format) {
  const data::NpzFile arrays = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/float8_torch.npz");
  const std::vector<double> xs = arrays.at(format + ".x").to_vector();
  const std::vector<double> rounded = arrays.at(format + ".rounded").to_vector();
  const std::vector<double> bytes = arrays.at(format + ".bytes").to_vector();
  ASSERT_GT(xs.size(), 1000u);
  for (const float scale : {1.0F, 0x1p-20F, 0x1p30F}) {
    std::vector<float> scaled;
    for (const double x : xs) scaled.push_back(static_cast<float>(x) * scale);
    std::vector<bfloat16> by_vectors(xs.size());
    ops::float8_functions<Format>(DType::kF32)
        .round(scaled.data(), scale, by_vectors.data(), static_cast<int64_t>(xs.size()));
    for (size_t i = 0; i < xs.size(); ++i) {
      const float x = scaled[i];
      const float got = ops::element::rounded_to_float8<Format>(x, scale);
      ASSERT_EQ(got, rounded[i]) << xs[i] << " at " << scale;
      ASSERT_EQ(static_cast<float>(by_vectors[i]), got * scale) << xs[i] << " at " << scale;
      ASSERT_EQ(ops::element::float8_byte<Format>(got), got == 0 ? 0 : bytes[i]) << xs[i];
    }
  }
  EXPECT_EQ(ops::element::float8_byte<Format>(0.0F), 0);
  EXPECT_EQ(ops::element::float8_byte<Format>(-0.0F), 0x80);
}

TEST(Float8, RoundsAsPyTorch) {
  expect_golden<E4M3>("e4m3");
  expect_golden<E5M2>("e5m2");
}

TEST(Float8, WhatIsTooLargeIsTheLargestAndNoNumberIsNaN) {
  constexpr float kMax = std::numeric_limits<float>::max(),
                  kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ops::element::rounded_to_float8<E4M3>(449, 1), 448);
  EXPECT_EQ(ops::element::rounded_to_float8<E4M3>(-kMax, 1), -448);
  EXPECT_EQ(ops::element::rounded_to_float8<E4M3>(kMax, 0x1p-100F), 448);
  EXPECT_EQ(ops::element::rounded_to_float8<E5M2>(60000, 1), 57344);
  for (const float none : {kInfinity, -kInfinity, std::nanf("")}) {
    EXPECT_TRUE(std::isnan(ops::element::rounded_to_float8<E4M3>(none, 1)));
    EXPECT_TRUE(std::isnan(ops::element::rounded_to_float8<E5M2>(none, 2)));
  }
  EXPECT_EQ(ops::element::float8_byte<E4M3>(std::nanf("")) & 0x7f, 0x7f);
}

TEST(Float8, AScaleIsTheLeastPowerOfTwoThatHoldsTheLargest) {
  const auto scale = [](std::vector<float> newest) {
    return ops::element::float8_scale<E4M3>(history_of(std::move(newest)).data());
  };
  EXPECT_EQ(scale({}), 1);
  EXPECT_EQ(scale({448}), 1);
  EXPECT_EQ(scale({448.0001F}), 2);
  EXPECT_EQ(scale({224, 3}), 0.5);
  EXPECT_EQ(scale({1e-3F, 2, 0.5F}), 0x1p-7F);  // 2 x 2^7 = 256
  EXPECT_EQ(scale({1e-37F}), 0x1p-100F);
  EXPECT_EQ(scale({std::numeric_limits<float>::max()}), 0x1p120F);
  EXPECT_EQ(ops::element::float8_scale<E5M2>(history_of({1}).data()), 0x1p-15F);
  std::vector<float> history = history_of({448});
  history.back() = 4480;
  EXPECT_EQ(ops::element::float8_scale<E4M3>(history.data()), 1) << "the newest doesn't count";
  history = history_of({});
  history.back() = 4480;
  EXPECT_EQ(ops::element::float8_scale<E4M3>(history.data()), 16) << "unless it is alone";
}

/// x with each element rounded at the scale of `largest`.
template <typename Format>
Tensor rounded_to_8_bits(const Tensor& x, float largest) {
  const float scale = ops::element::float8_scale<Format>(history_of({largest}).data());
  std::vector<double> values = x.to_vector();
  for (double& value : values)
    value = ops::element::rounded_to_float8<Format>(static_cast<float>(value), scale) * scale;
  return from_vector(x.shape(), values, DType::kF32);
}

TEST(Float8, GradientsAreProductsOfRoundedFactorsAndItsHistoryGrows) {
  const Tensor x = normal({2, 3, 20}, 1), kernel = normal({20, 7}, 2), g = normal({2, 3, 7}, 3) * 1e-4;
  const Variable history(history_tensor({1e-9F, 2e-4F, 1e-5F}), "gradient", false);
  const Tensor g_rounded = rounded_to_8_bits<E5M2>(g, 2e-4F);
  const Tensor x_rounded = rounded_to_8_bits<E4M3>(x, 2), kernel_rounded = rounded_to_8_bits<E4M3>(kernel, 5);
  GradientTape tape;
  const Tensor y = matmul_float8(x, kernel, history_tensor({2}), history_tensor({5}), {history, true});
  EXPECT_TRUE(near(y, matmul(x_rounded, kernel_rounded), 1e-5, 1e-5));
  const Tensor sources[] = {x, kernel};
  const std::vector<Tensor> gradients = tape.gradient({&y, 1}, sources, {&g, 1});
  EXPECT_TRUE(near(gradients[0], matmul(g_rounded, kernel_rounded, false, true), 1e-5, 1e-9));
  const Tensor rows = from_vector({6, 20}, x_rounded.to_vector(), DType::kF32);
  const Tensor of_rows = from_vector({6, 7}, g_rounded.to_vector(), DType::kF32);
  EXPECT_TRUE(near(gradients[1], matmul(rows, of_rows, true), 1e-5, 1e-9));
  const std::vector<double> grown = history.tensor().to_vector();
  double largest = 0;
  for (const double value : g.to_vector()) largest = std::max(largest, std::abs(value));
  EXPECT_EQ(grown.back(), largest);
  EXPECT_EQ(grown[grown.size() - 4], 2e-4F);
  GradientTape other;
  const Tensor again = matmul_float8(x, kernel, history_tensor({2}), history_tensor({5}), {history});
  EXPECT_TRUE(near(other.gradient({&again, 1}, sources, {&g, 1})[0], gradients[0], 0.2, 1e-4));
  EXPECT_EQ(history.tensor().to_vector(), grown) << "it isn't to grow";
}

TEST(Float8, TheGradientOfNothingIsZero) {
  const Tensor x = zeros({2, 3, 0}), kernel = zeros({0, 4});
  GradientTape tape;
  const Tensor y = matmul_float8(x, kernel, history_tensor({}), history_tensor({}), {});
  EXPECT_EQ(y.to_vector(), std::vector<double>(24));
  const Tensor sources[] = {x, kernel};
  const std::vector<Tensor> gradients = tape.gradient(sum(y), sources);
  EXPECT_EQ(gradients[0].shape(), x.shape());
  EXPECT_EQ(gradients[1].shape(), kernel.shape());
}

TEST(Float8, IsNotDifferentiableTwice) {
  const Tensor x = normal({2, 3}, 1), kernel = normal({3, 4}, 2);
  GradientTape tape(true);
  const Tensor y = matmul_float8(x, kernel, history_tensor({}), history_tensor({}), {});
  const Tensor dx = tape.gradient(y, x);
  EXPECT_ERROR(tape.gradient(dx, kernel), ErrorCode::kUnsupported, "not differentiable twice");
  EXPECT_ERROR(matmul_float8(x, normal({2, 3, 4}, 2), history_tensor({}), history_tensor({}), {}),
               ErrorCode::kShapeMismatch, "must have 2 axes");
  EXPECT_ERROR(matmul_float8(x, kernel, history_tensor({}), history_tensor({}), {.grows = true}),
               ErrorCode::kInvalidArgument, "must be defined");
}

/// On a device: bytes where the units take them, the same numbers in 16 bits elsewhere.
std::vector<cuda::ProductSpec> products_for(const Shape& x, int64_t units, int major, int minor,
                                            std::vector<double>* result = nullptr) {
  cuda::SimulatedDevice device;
  device.properties.major = major;
  device.properties.minor = minor;
  SimulatedGpu simulated(device);
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  const Tensor kernel = normal({x[x.rank() - 1], units}, 2);
  auto product = capture(
      [&](const Tensor& a, const Tensor& b, const Tensor& of_a, const Tensor& of_b) {
        static const graph::OpDef& op = ops::row("matmul_float8");
        return graph::apply_one(op, {a, b, of_a, of_b},
                                {{"transpose_a", false},
                                 {"transpose_b", false},
                                 {"a_format", std::string("e5m2")},
                                 {"b_format", std::string("e4m3")}});
      },
      options);
  const Tensor y = product(normal(x, 1), kernel, history_tensor({3}), history_tensor({2}));
  if (result != nullptr) *result = graph::to_device(y, {}).to_vector();
  return simulated.products.specs;
}

TEST(Float8, ADeviceMultipliesBytesWhereItHasUnitsForThem) {
  std::vector<double> in_bytes, in_16_bits, want;
  auto specs = products_for({2, 24, 32}, 16, 9, 0, &in_bytes);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].a_bytes, cuda::Float8::kE4M3) << "the library's a is b";
  EXPECT_EQ(specs[0].b_bytes, cuda::Float8::kE5M2);
  EXPECT_EQ(specs[0].n, 48) << "rows of the batch in one product";
  specs = products_for({2, 24, 32}, 16, 8, 0, &in_16_bits);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_FALSE(specs[0].in_bytes());
  EXPECT_EQ(specs[0].factors, DType::kBF16);
  EXPECT_TRUE(products_for({2, 24, 32}, 16, 8, 9)[0].in_bytes());
  EXPECT_TRUE(products_for({7, 32}, 16, 9, 0)[0].in_bytes()) << "any rows";
  EXPECT_FALSE(products_for({32, 24}, 16, 9, 0)[0].in_bytes());
  EXPECT_FALSE(products_for({32, 32}, 10, 9, 0)[0].in_bytes());
  want = matmul(rounded_to_8_bits<E5M2>(normal({2, 24, 32}, 1), 3),
                rounded_to_8_bits<E4M3>(normal({32, 16}, 2), 2))
             .to_vector();
  ASSERT_EQ(in_bytes.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(in_bytes[i], want[i], 1e-4);
    EXPECT_NEAR(in_16_bits[i], want[i], 1e-4);
  }
}

}  // namespace
}  // namespace isochron
