// Products in tiles on a simulated device, against the CPU's.
#include <gmock/gmock.h>

#include <functional>
#include <utility>
#include <vector>

#include "isochron/autograd/autograd.h"
#include "isochron/backends/common/choices.h"
#include "isochron/backends/cuda/matmul/product_tiles.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/simulated/results_on.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

using ops::ProductExtents;
using ops::ProductTiles;
using Arguments = std::span<const Tensor>;

/// Compares the results of `function` here with those on devices with few and with many multiprocessors,
/// without libraries.
template <typename F>
void expect_the_cpus_results(const F& function, const std::vector<Tensor>& arguments, double tolerance,
                             Precision precision = Precision::kF32) {
  const Precision here = precision == Precision::kTf32 ? Precision::kF32 : precision;  // which the CPU has
  const auto expected = results_of(function, arguments, 0, true, here);
  for (const int multiprocessors : {1, 132}) {
    const auto results = results_of(function, arguments, multiprocessors, false, precision);
    for (size_t r = 0; r < results.size(); ++r)
      EXPECT_THAT(results[r], testing::Pointwise(testing::DoubleNear(tolerance), expected[r]))
          << "result " << r << " on " << multiprocessors << " multiprocessors";
  }
}

/// The precisions to which tensor cores round factors.
constexpr Precision kRounded[] = {Precision::kTf32, Precision::kMixedBf16, Precision::kMixedF16};

TEST(DeviceProducts, GoOverSeveralTilesAndParts) {
  struct Case {
    Shape a, b;
    bool transpose_a, transpose_b;
    DType dtype;
  };
  for (const Case& of : {Case{{70, 130}, {130, 67}, false, false, DType::kF32},
                         Case{{300, 5}, {300, 90}, true, false, DType::kF32},
                         Case{{3, 700}, {2, 700}, false, true, DType::kF64},
                         Case{{5, 700, 9}, {5, 33, 700}, true, true, DType::kF32},
                         Case{{2, 1, 17, 150}, {3, 150, 18}, false, false, DType::kF64}}) {
    const auto product = [&](Arguments in) {
      return std::vector<Tensor>{matmul(in[0], in[1], of.transpose_a, of.transpose_b)};
    };
    expect_the_cpus_results(product, {waves(of.a, 1.7, of.dtype), waves(of.b, 0.9, of.dtype)}, 1e-4);
  }
}

TEST(DeviceProducts, TensorCoresSumUpWholeNumbersExactly) {
  struct Case {
    Shape a, b;
    bool transpose_a, transpose_b;
  };
  for (const Case& of :
       {Case{{70, 131}, {131, 67}, false, false}, Case{{2, 260, 9}, {2, 33, 260}, true, true}}) {
    const auto product = [&](Arguments in) {
      return std::vector<Tensor>{matmul(in[0], in[1], of.transpose_a, of.transpose_b)};
    };
    for (const Precision precision : kRounded)
      expect_the_cpus_results(product, {whole_numbers(of.a, 1.7), whole_numbers(of.b, 0.9)}, 0, precision);
  }
}

TEST(DeviceProducts, AddTermsAndTakeTheLargerOf0WhereTheyAreStored) {
  const auto layer = [](Arguments in) {
    return std::vector<Tensor>{relu(matmul(in[0], in[1]) + in[2]), matmul(in[0], in[1]) + in[3]};
  };
  expect_the_cpus_results(
      layer, {waves({20, 400}, 1.7), waves({400, 6}, 0.9), waves({6}, 0.4), waves({20, 6}, 2.9)}, 1e-4);
}

TEST(DeviceProducts, RunElementOpsOnTheirSums) {
  // Several operands, a product with other readers, sums of stored values; as one tile and in partial sums;
  // also by libraries.
  const auto products = [](Arguments in) {
    const Tensor product = matmul(in[0], in[1]);
    const Tensor gate = sigmoid(matmul(in[0] * 0.5, in[1]) - in[2]) * in[3];
    return std::vector<Tensor>{gelu(product), product - 1.0, gate, sum(gate, {0})};
  };
  const std::vector<Tensor> factors{waves({20, 400}, 1.7), waves({400, 6}, 0.9), waves({6}, 0.4),
                                    waves({20, 6}, 2.9)};
  expect_the_cpus_results(products, factors, 1e-4);
  const auto convolutions = [](Arguments in) {
    GradientTape tape;
    tape.watch(in[0]);
    const Tensor h = relu(conv2d(in[0], in[1], in[2]) * in[3]);
    const Tensor y = conv2d(h, in[4]);
    return std::vector<Tensor>{y, h, tape.gradient(sum(square(y)), std::vector{in[0]})[0]};
  };
  const std::vector<Tensor> images{waves({2, 7, 6, 3}, 1.7), waves({3, 3, 3, 5}, 0.9), waves({5}, 0.4),
                                   waves({2, 5, 4, 5}, 2.9), waves({3, 2, 5, 4}, 1.1)};
  expect_the_cpus_results(convolutions, images, 1e-3);
  for (const auto& [function, arguments] :
       {std::pair<std::function<std::vector<Tensor>(Arguments)>, std::vector<Tensor>>{products, factors},
        {convolutions, images}}) {
    const auto expected = results_of(function, arguments), found = results_of(function, arguments, 4);
    for (size_t r = 0; r < found.size(); ++r)
      EXPECT_THAT(found[r], testing::Pointwise(testing::DoubleNear(1e-3), expected[r])) << "result " << r;
  }
}

TEST(DeviceProducts, ConvolutionsOfManyPixelsHaveTheirGradients) {
  struct Case {
    Shape x, kernel;
    ConvolutionOptions options;
  };
  for (const Case& of :
       {Case{{4, 20, 19, 3}, {3, 3, 3, 18}, {.padding = Padding::same()}},
        Case{{3, 21, 20, 4}, {3, 2, 2, 70}, {.stride = {2, 1}, .padding = Padding::same(), .groups = 2}},
        Case{{2, 16, 30, 5}, {5, 1, 1, 5}, {.groups = 5}}}) {
    const auto gradients = [&](Arguments in) {
      GradientTape tape;
      for (const Tensor& tensor : in) tape.watch(tensor);
      const Tensor y = conv2d(in[0], in[1], in[2], of.options);
      std::vector<Tensor> results = tape.gradient(sum(square(y)), std::vector{in[0], in[1], in[2]});
      results.push_back(y);
      return results;
    };
    expect_the_cpus_results(
        gradients, {waves(of.x, 1.7), waves(of.kernel, 0.9), waves({of.kernel[of.kernel.rank() - 1]}, 0.4)},
        5e-3);
  }
}

TEST(DeviceProducts, TensorCoresTakeConvolutionsAndTheirGradients) {
  struct Case {
    Shape x, kernel;
    ConvolutionOptions options;
  };
  for (const Case& of : {Case{{3, 10, 9, 3}, {3, 3, 3, 18}, {.padding = Padding::same()}},
                         Case{{2, 9, 11, 4}, {3, 2, 2, 34}, {.stride = {2, 1}, .groups = 2}}}) {
    const auto gradients = [&](Arguments in) {
      GradientTape tape;
      for (const Tensor& tensor : in) tape.watch(tensor);
      const Tensor y = conv2d(in[0], in[1], {}, of.options);
      std::vector<Tensor> results = tape.gradient(sum(y * in[2]), std::vector{in[0], in[1]});
      results.push_back(y);
      return results;
    };
    const Shape y = conv2d(zeros(of.x), zeros(of.kernel), {}, of.options).shape();
    for (const Precision precision : kRounded) {
      expect_the_cpus_results(
          gradients, {whole_numbers(of.x, 1.7), whole_numbers(of.kernel, 0.9), whole_numbers(y, 0.4)}, 0,
          precision);
    }
  }
}

TEST(ProductTiles, CoverTheResultWithLittleLeftOver) {
  for (const int64_t extent : {1, 15, 16, 17, 64, 65, 144, 145, 200, 1000}) {
    const ProductTiles tiles({extent, 33, 10, 3}, 132);
    EXPECT_GE(tiles.tiles / tiles.across * tiles.rows, extent);
    EXPECT_LT(tiles.tiles / tiles.across * tiles.rows, extent + std::max<int64_t>(16, extent / 2)) << extent;
    EXPECT_EQ(tiles.columns, 48);
    EXPECT_EQ(tiles.all, 3 * tiles.tiles);
    EXPECT_LE(tiles.threads(), 256u);
    EXPECT_LE(ProductTiles({extent, 33, 10, 3}, 132, ops::TensorFormat::kBfloat16).threads(), 384u);
  }
}

TEST(ProductTiles, AreCutIntoPartsWhereTheyAreFew) {
  for (const ProductExtents& of : {ProductExtents{145, 16, 32'768, 1}, ProductExtents{64, 64, 4096, 2},
                                   ProductExtents{2000, 2000, 2000, 1}, ProductExtents{1, 1, 1'000'000, 1}}) {
    const ProductTiles tiles(of, 132);
    EXPECT_GE(tiles.parts * tiles.depth, of.k);
    EXPECT_LT((tiles.parts - 1) * tiles.depth, of.k) << "none is empty";
    EXPECT_EQ(tiles.parts > 1, of.m < 2000);
    EXPECT_LE((tiles.parts - 1) * of.m * of.n * of.count * 4, 16 << 20) << "of memory";
  }
  EXPECT_EQ(ProductTiles({8, 8, 0, 1}, 132).parts, 1) << "of nothing";
  EXPECT_TRUE(ProductTiles({0, 8, 5, 1}, 132).empty());
}

TEST(DeviceProducts, WhatIsAddedMayLieWhereTheResultDoes) {
  cuda::SimulatedDevice device;
  device.properties.multiprocessors = 132;
  const SimulatedGpu simulated(device, true, false);
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  Variable sums(zeros({6, 6}), "sums");
  sums.move_to(SimulatedGpu::kDevice);
  auto step = capture(
      [&](const Tensor& x) {
        sums.assign(sums.tensor() + matmul(x, x, false, true));
        return sum(x);
      },
      options);
  ASSERT_GT(ProductTiles({6, 6, 500, 1}, 132).parts, 1);
  for (int i = 0; i < 2; ++i) step(ones({6, 500}));
  EXPECT_THAT(sums.tensor().to_vector(), testing::Each(1'000));
}

TEST(DeviceProducts, TilesServeWhereNoWayOfALibraryWorks) {
  SimulatedGpu simulated;
  simulated.products.failing = {0, 512};
  ops::set_deterministic(true);  // so that tiles aren't tried beside these
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  auto product = capture([](const Tensor& x) { return matmul(x, x); }, options);
  const std::vector<double> result = product(ones({6, 6})).to_vector();
  ops::set_deterministic(false);
  EXPECT_EQ(result, std::vector<double>(36, 6));
}

TEST(DeviceProducts, AKernelIsChosenOnceItsModuleIsLoaded) {
  SimulatedGpu simulated;
  ops::forget_choices();
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  const auto square = [](const Tensor& x) { return matmul(x, x); };
  auto product = capture(square, options);
  EXPECT_EQ(product(ones({5, 5})).to_vector(), std::vector<double>(25, 5));
  ASSERT_THAT(ops::recorded_choices(), testing::SizeIs(1));
  const auto [call, chosen] = *ops::recorded_choices().begin();
  EXPECT_THAT(call, testing::HasSubstr("or its own kernels"));
  // The record decides.
  ops::forget_choices();
  const std::string tiles =
      ProductTiles({5, 5, 5, 1}, simulated.gpu->context().properties().multiprocessors).name();
  ops::restore_choices({{call, tiles}});
  auto again = capture(square, options);
  EXPECT_EQ(again(ones({5, 5})).to_vector(), std::vector<double>(25, 5));
  EXPECT_EQ(ops::recorded_choices().at(call), tiles);
  ops::forget_choices();
}

}  // namespace
}  // namespace isochron
