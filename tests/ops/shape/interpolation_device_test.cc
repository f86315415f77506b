// Resizing on a simulated device against the CPU, where the registry's samples don't reach.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/ops/shape/interpolation.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

using Tensors = std::vector<Tensor>;

constexpr int kMultiprocessors = 4;

/// The results of `resize` and its gradient on the CPU and on a device.
void expect_equal(const Tensor& x, const Dims& size, const ResizeOptions& options, double tolerance) {
  const auto resized = [&](std::span<const Tensor> in) {
    GradientTape tape;
    tape.watch(in[0]);
    const Tensor y = resize(in[0], size, options);
    return Tensors{y, tape.gradient({&y, 1}, {&in[0], 1}, {&in[1], 1})[0]};
  };
  Shape out = x.shape();
  for (int i = 0; i < size.rank(); ++i) out[i + 1] = size[i];
  const Tensors arguments = {x, waves(out, 0.7, x.dtype())};
  const auto expected = results_of(resized, arguments),
             got = results_of(resized, arguments, kMultiprocessors);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_THAT(got[i], testing::Pointwise(testing::NanSensitiveDoubleNear(tolerance), expected[i]))
        << x.spec().str() << " to " << dims_str(size) << ", result " << i;
}

const ResizeOptions kOptions[] = {{Interpolation::kNearest},
                                  {},
                                  {.align_corners = true},
                                  {.antialias = true},
                                  {Interpolation::kCubic},
                                  {Interpolation::kCubic, true},
                                  {Interpolation::kCubic, false, true},
                                  {Interpolation::kArea}};

TEST(DeviceInterpolation, IsTheCpusOnAxesInTheMiddle) {
  for (const ResizeOptions& options : kOptions) {
    expect_equal(waves({2, 9, 17, 5}, 1.3), {20, 7}, options, 1e-5);
    expect_equal(waves({1, 3, 300, 2}, 1.3, DType::kF64), {11, 40}, options, 1e-13);
  }
}

TEST(DeviceInterpolation, SumsInF32Of16Bits) {
  for (const ResizeOptions& options : kOptions) {
    expect_equal(waves({2, 30, 3}, 1.3, DType::kBF16), {11}, options, 1e-6);
    expect_equal(waves({2, 11, 3}, 1.3, DType::kF16), {31}, options, 1e-6);
  }
}

TEST(DeviceInterpolation, TakesMoreElementsThanABlockHasThreads) {
  for (const Interpolation method : {Interpolation::kLinear, Interpolation::kCubic})
    expect_equal(waves({2, 3000, 2}, 0.1), {3}, {method, false, true}, 1e-5);
}

TEST(DeviceInterpolation, OfNothingIsNothing) {
  for (const ResizeOptions& options : kOptions) expect_equal(waves({0, 4, 3, 2}, 1), {8, 2}, options, 0);
}

TEST(DeviceInterpolation, NearestMovesAnyDtype) {
  for (const DType dtype : {DType::kU8, DType::kI32, DType::kI64, DType::kBool}) {
    const auto resized = [](std::span<const Tensor> in) {
      return Tensors{resize(in[0], {5, 3}, {Interpolation::kNearest})};
    };
    const Tensor x = from_vector({2, 2, 4, 1}, {1, 0, 2, 1, 0, 1, 3, 0, 0, 5, 1, 1, 0, 4, 0, 1}, dtype);
    EXPECT_EQ(results_of(resized, {x}, kMultiprocessors), results_of(resized, {x})) << dtype_name(dtype);
  }
}

TEST(DeviceInterpolation, NanReachesWhatItIsAPartOf) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = from_vector({1, 6, 1}, {0, 1, nan, 3, INFINITY, 5});
  for (const ResizeOptions& options : kOptions) {
    expect_equal(x, {15}, options, 1e-5);
    expect_equal(x, {4}, options, 1e-5);
  }
}

}  // namespace
}  // namespace isochron
