// Windows as rows against PyTorch's unfold (tests/golden/make_functions_torch.py) and our convolution.
#include "isochron/ops/convolution/unfold.h"

#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"
#include "ops/golden_functions.h"
#include "support/expect_error.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

using Unfold = GoldenFunctions;

TEST_F(Unfold, RowsAndGradientsAreThoseOfPyTorch) {
  check_several("unfold", [](In in) { return unfold(in[0], {3, 2}); });
  check_several("unfold_set", [](In in) {
    return unfold(in[0], {2, 3},
                  {.stride = {2, 1}, .padding = Padding::explicitly(1, 1, 2, 2), .dilation = {1, 2}});
  });
}

void expect_convolution(const Shape& image, const Shape& kernel, const UnfoldOptions& options) {
  const Tensor x = waves(image, 1.3, DType::kF64), k = waves(kernel, 0.7, DType::kF64);
  const Dims window(kernel.span().first(static_cast<size_t>(kernel.rank() - 2)));
  const Tensor rows = unfold(x, window, options);
  EXPECT_TRUE(near(matmul(rows, reshape(k, {-1, kernel.back()})),
                   convolution(x, k, {}, {options.stride, options.padding, options.dilation}), 1e-12, 1e-12))
      << image.str();
}

TEST(UnfoldProducts, WithAKernelAreConvolutions) {
  expect_convolution({2, 9, 3}, {3, 3, 4}, {.padding = Padding::causal(), .dilation = {2}});
  expect_convolution({2, 7, 6, 3}, {3, 2, 3, 4}, {.stride = {2, 1}, .padding = Padding::same()});
  expect_convolution({1, 4, 5, 6, 2}, {2, 3, 2, 2, 3}, {.stride = {1, 1, 3}});
}

TEST(UnfoldProducts, GradientsAgreeWithDifferences) {
  constexpr double kStep = 1e-6;
  const Tensor x = waves({1, 4, 5, 2}, 0.9, DType::kF64);
  const auto loss = [](const Tensor& in) {
    return sum(square(unfold(in, {2, 3}, {.stride = {1, 2}, .padding = Padding::same()})));
  };
  GradientTape tape;
  const Values dx = tape.gradient(loss(x), x).to_vector();
  for (size_t i = 0; i < dx.size(); ++i) {
    Values up = x.to_vector(), down = up;
    up[i] += kStep;
    down[i] -= kStep;
    const double above = loss(from_vector(x.shape(), up, DType::kF64)).item<double>();
    const double below = loss(from_vector(x.shape(), down, DType::kF64)).item<double>();
    const double difference = (above - below) / (2 * kStep);
    EXPECT_NEAR(dx[i], difference, 1e-3 * std::abs(difference) + 1e-5) << i;
  }
}

TEST(UnfoldLimits, OrderOfElementsAndDtypes) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
    const Tensor x = cast(reshape(arange(18), {1, 3, 3, 2}), dtype);
    const Tensor y = unfold(x, {2, 2});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.shape(), Shape({1, 2, 2, 8}));
    const Values values = y.to_vector();
    EXPECT_EQ(Values(values.begin(), values.begin() + 8), (Values{0, 1, 2, 3, 6, 7, 8, 9}));
  }
  EXPECT_EQ(unfold(zeros({0, 4, 4, 3}), {2, 2}).shape(), Shape({0, 3, 3, 12}));
}

TEST(UnfoldLimits, MistakesAreErrors) {
  const Tensor x = zeros({2, 4, 5, 3});
  EXPECT_ERROR(unfold(x, {5, 2}), ErrorCode::kShapeMismatch, "[unfold] the window along spatial axis 0");
  EXPECT_ERROR(unfold(x, {2}), ErrorCode::kInvalidArgument, "[unfold");
  EXPECT_ERROR(unfold(x, {2, 2}, {.stride = {0, 1}}), ErrorCode::kInvalidArgument, "at least 1");
  EXPECT_ERROR(unfold(x, {2, 2}, {.padding = Padding::explicitly(1, 1)}), ErrorCode::kInvalidArgument,
               "[unfold");
  EXPECT_ERROR(unfold(zeros({4, 4}), {}), ErrorCode::kShapeMismatch, "[unfold] images are");
  EXPECT_ERROR(unfold(Tensor(), {2, 2}), ErrorCode::kInvalidArgument, "undefined");
}

}  // namespace
}  // namespace isochron
