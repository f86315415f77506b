// Factorizations on a simulated device, where the registry's samples don't reach.
#include <gmock/gmock.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/linalg/linalg.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "ops/linalg/random_matrix.h"
#include "support/expect_error.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

constexpr int kMultiprocessors = 4;

/// What `function` gives on a device.
template <typename F>
Tensors on_device(F function, const Tensors& arguments) {
  const SimulatedGpu simulated({}, true);
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  CapturedFunction captured([&](std::span<const Tensor> in) { return function(in); }, options);
  std::vector<const Tensor*> pointers;
  for (const Tensor& argument : arguments) pointers.push_back(&argument);
  Tensors results;
  for (const Tensor& result : captured.call(pointers))
    results.push_back(from_vector(result.shape(), result.to_vector(), result.dtype()));
  return results;
}

// Sizes on either side of those at which the algorithms split.
class DeviceMatrixSizes : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, DeviceMatrixSizes, testing::Values(1, 2, 31, 32, 33, 64, 65, 131));

TEST_P(DeviceMatrixSizes, FactorsMultiplyBackToTheMatrix) {
  const int64_t n = GetParam();
  const double size = static_cast<double>(n);
  const Tensor a = random_matrix({n, n}), positive = matmul(a, a, false, true) + eye(n, DType::kF64);
  const Tensors results = on_device(
      [](std::span<const Tensor> in) {
        const auto [sign, log_size] = slogdet(in[1]);
        return Tensors{cholesky(in[0]), solve(in[1], in[2]), solve(in[1], in[2], true), sign, log_size};
      },
      {positive, a, random_matrix({n, 7})});
  const Tensor b = random_matrix({n, 7});
  EXPECT_LT(largest(matmul(results[0], results[0], false, true) - positive), 1e-14 * size);
  EXPECT_LT(largest(matmul(a, results[1]) - b), 1e-13 * size * std::max(1.0, largest(results[1])));
  EXPECT_LT(largest(matmul(a, results[2], true, false) - b),
            1e-13 * size * std::max(1.0, largest(results[2])));
  const auto [sign, log_size] = slogdet(a);
  EXPECT_EQ(results[3].item<double>(), sign.item<double>());
  EXPECT_NEAR(results[4].item<double>(), log_size.item<double>(), 1e-11 * size);
}

TEST_P(DeviceMatrixSizes, ReflectionsMultiplyBackToTheMatrix) {
  const int64_t n = GetParam();
  const double size = static_cast<double>(n);
  for (const Shape& shape : {Shape{n, n}, Shape{2 * n + 3, n}, Shape{n, n + 9}}) {
    const Tensor m = random_matrix(shape);
    const Tensors results = on_device(
        [](std::span<const Tensor> in) {
          const auto [q, r] = qr(in[0]);
          return Tensors{q, r};
        },
        {m});
    EXPECT_LT(largest(matmul(results[0], results[1]) - m), 1e-14 * size) << shape.str();
    EXPECT_LT(largest(matmul(results[0], results[0], true, false) - eye(n, DType::kF64)), 1e-14 * size)
        << shape.str();
    const auto [q, r] = qr(m);
    EXPECT_LT(largest(results[1] - r), 1e-12 * size) << shape.str() << ": with the CPU's signs";
  }
}

TEST(DeviceMatrices, ManyRightHandSidesOfBatches) {
  const Tensor a = random_matrix({3, 2, 40, 40}, DType::kF32) + eye(40) * 9.0;
  const Tensor b = random_matrix({3, 2, 40, 150}, DType::kF32);
  const auto solved = [](std::span<const Tensor> in) {
    Tensors results = {solve(in[0], in[1])};
    for (const bool lower : {true, false}) {
      for (const bool transpose : {true, false})
        results.push_back(triangular_solve(in[0], in[1], {lower, transpose, false}));
    }
    return results;
  };
  const auto expected = results_of(solved, {a, b}), got = results_of(solved, {a, b}, kMultiprocessors);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_THAT(got[i], testing::Pointwise(testing::DoubleNear(1e-4), expected[i])) << i;
}

TEST(DeviceMatrices, AreTheSameAgain) {
  const auto results = [](std::span<const Tensor> in) {
    const auto [q, r] = qr(in[0]);
    const auto [sign, log_size] = slogdet(in[0]);
    return Tensors{solve(in[0], in[0]), q, r, sign, log_size, cholesky(matmul(in[0], in[0], false, true))};
  };
  const Tensor a = random_matrix({2, 50, 50}, DType::kF32) + eye(50) * 3.0;
  EXPECT_EQ(results_of(results, {a}, 1), results_of(results, {a}, 132));
}

TEST(DeviceMatrices, PivotsAreTheCpus) {
  const double nan = std::nan("");
  for (const Values& values : {Values{0, 2, 0, -3, 0, 1, 3, 1, 4},
                               {nan, 1, 2, 3, 4, 5, 6, 7, 9},
                               {1, 2, 3, nan, 5, 6, 7, 8, 1},
                               {1, INFINITY, 3, 4, 5, 6, INFINITY, 8, 1},
                               {2, 1, 0, -2, 4, 1, 2, 0, 5},
                               {0, 0, 1, 0, 2, 3, 0, 4, 5}}) {
    const auto determinant_of = [](std::span<const Tensor> in) {
      const auto [sign, log_size] = slogdet(in[0]);
      return Tensors{sign, log_size};
    };
    const Tensor a = from_vector({3, 3}, values, DType::kF64);
    const auto expected = results_of(determinant_of, {a}),
               got = results_of(determinant_of, {a}, kMultiprocessors);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_THAT(got[i], testing::Pointwise(testing::NanSensitiveDoubleNear(1e-13), expected[i]))
          << testing::PrintToString(values);
  }
}

TEST(DeviceMatrices, OfNoElements) {
  const auto results = [](std::span<const Tensor> in) {
    const auto [sign, log_size] = slogdet(in[0]);
    const auto [q, r] = qr(in[1]);
    return Tensors{sign, log_size, cholesky(in[0]), solve(in[0], in[0]), q, r};
  };
  const Tensors arguments = {zeros({2, 0, 0}), zeros({0, 3, 2})};
  EXPECT_EQ(results_of(results, arguments, kMultiprocessors), results_of(results, arguments));
  EXPECT_EQ(results_of(results, arguments, kMultiprocessors)[0], Values({1, 1}));
}

TEST(DeviceMatrices, QrNeitherOverflowsNorHidesNan) {
  const auto r_of = [](std::span<const Tensor> in) { return Tensors{qr(in[0]).second}; };
  const auto of = [&](const Values& values) {
    return on_device(r_of, {from_vector({2, 1}, values, DType::kF64)})[0].item<double>();
  };
  EXPECT_NEAR(of({3e200, 4e200}) / -5e200, 1, 1e-14);
  EXPECT_NEAR(of({-3e-200, 4e-200}) / 5e-200, 1, 1e-14);
  EXPECT_EQ(of({-2, 0}), -2) << "nothing to reflect";
  EXPECT_TRUE(std::isnan(of({1, NAN})));
  EXPECT_TRUE(std::isnan(of({NAN, 1})));
}

/// A matrix without a result causes a fault of the device.
template <typename F>
void expect_fault(F function, const Tensors& arguments, const std::string& text) {
  EXPECT_ERROR(on_device([&](std::span<const Tensor> in) { return Tensors{function(in)}; }, arguments),
               ErrorCode::kDeviceLost, text);
}

TEST(DeviceMatrices, NameTheOneWithoutAResult) {
  Values values;
  for (int i = 0; i < 6; ++i) values.insert(values.end(), {4, 2, 2, i == 4 ? 0.5 : 5.0});
  using In = std::span<const Tensor>;
  const auto factor = [](In in) { return cholesky(in[0]); };
  expect_fault(factor, {from_vector({2, 3, 2, 2}, values)},
               "cholesky: matrix (1, 1) of the batch (2, 3) is not positive definite: pivot 1 is -0.5");
  expect_fault(factor, {from_vector({1, 1}, {NAN})}, "cholesky: the matrix is not positive definite");
  Tensor late = eye(70, DType::kF64);
  values = late.to_vector();
  values[50 * 71] = -2;
  expect_fault(factor, {from_vector({70, 70}, values)}, "pivot 50 is -2");
  const Tensor singular = from_vector({2, 2, 2}, {1, 0, 0, 1, 1, 2, 2, 4}), b = ones({2, 2, 1});
  expect_fault([](In in) { return solve(in[0], in[1]); }, {singular, b},
               "solve: matrix (1) of the batch (2) is singular: column 1 depends on those before it");
  const Tensor triangle = from_vector({2, 2}, {1, 5, 1, 0});
  expect_fault([](In in) { return triangular_solve(in[0], in[1]); }, {triangle, ones({2, 1})},
               "triangular_solve: the matrix is singular: element (1, 1) of its diagonal is 0");
  EXPECT_EQ(on_device([](In in) { return Tensors{triangular_solve(in[0], in[1], {.unit_diagonal = true})}; },
                      {triangle, ones({2, 1})})[0]
                .to_vector(),
            (Values{1, 0}));
}

}  // namespace
}  // namespace isochron
