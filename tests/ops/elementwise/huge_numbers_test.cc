// Numbers that no tensor can have and windows that reach beyond any image: a typed error or a result, at
// once.
#include <gmock/gmock.h>

#include <functional>

#include "isochron/core/base/checked.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/interpolation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using testing::AnyOf;
using testing::Pointwise;

constexpr int64_t k29 = int64_t{1} << 29, k62 = int64_t{1} << 62;

/// Images with `axes` spatial axes of extent 5, and kernels of extent 3.
Tensor image(int axes, int64_t channels = 2) {
  Shape shape{1};
  for (int i = 0; i < axes; ++i) shape.push_back(5);
  shape.push_back(channels);
  return reshape(arange(shape.elems(), DType::kF32), shape);
}
Tensor kernel(int axes) {
  Shape shape;
  for (int i = 0; i < axes; ++i) shape.push_back(3);
  shape.push_back(2);
  shape.push_back(4);
  return reshape(arange(shape.elems(), DType::kF32), shape);
}
Dims repeated(int64_t number, int axes) {
  Dims all;
  for (int i = 0; i < axes; ++i) all.push_back(number);
  return all;
}

void expect_refused(const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.code(), AnyOf(ErrorCode::kInvalidArgument, ErrorCode::kUnsupported,
                                    ErrorCode::kOverflow, ErrorCode::kOutOfMemory, ErrorCode::kShapeMismatch))
        << error.what();
  }
}

TEST(HugeNumbers, WindowsThatReachTooFarAreRefused) {
  for (int axes = 1; axes <= 3; ++axes) {
    SCOPED_TRACE(axes);
    for (const Padding& padding : {Padding::same(), Padding::explicitly(repeated(k29, 2 * axes))}) {
      EXPECT_ERROR(
          convolution(image(axes), kernel(axes), {}, {.padding = padding, .dilation = repeated(k29, axes)}),
          ErrorCode::kUnsupported, "at most 16777216 are supported");
    }
    for (const int64_t number : {k29, k62, -k62}) {
      for (const Padding& padding :
           {Padding::valid(), Padding::same(), Padding::explicitly(repeated(number, 2 * axes))}) {
        const ConvolutionOptions far{.padding = padding, .dilation = repeated(number, axes)};
        expect_refused([&] { convolution(image(axes), kernel(axes), {}, far); });
        expect_refused([&] {
          convolution_transpose(image(axes, 4), kernel(axes), {},
                                {.padding = padding, .dilation = repeated(number, axes)});
        });
        expect_refused([&] { max_pool(image(axes), repeated(number, axes), {.padding = padding}); });
        expect_refused([&] { average_pool(image(axes), repeated(number, axes), {.padding = padding}); });
      }
      expect_refused([&] {
        convolution(image(axes), kernel(axes), {},
                    {.padding = Padding::explicitly(repeated(number, 2 * axes))});
      });
      expect_refused([&] {
        convolution_transpose(image(axes, 4), kernel(axes), {}, {.stride = repeated(number, axes)});
      });
    }
  }
  expect_refused([&] { conv1d(image(1), kernel(1), {.padding = Padding::causal(), .dilation = {k62}}); });
  expect_refused([&] { conv1d(image(1), kernel(1), {.padding = Padding::causal(), .dilation = {k29}}); });
}

TEST(HugeNumbers, TransposedStridesThatBlowUpTheImageAreRefused) {
  // 17 GB of result from 5 elements.
  for (const Padding& padding : {Padding::valid(), Padding::same()}) {
    EXPECT_ERROR(conv1d_transpose(image(1, 4), kernel(1), {.stride = {k29}, .padding = padding}),
                 ErrorCode::kUnsupported, "536870912 apart in the result; at most 16777216 are supported");
  }
  const Tensor one = ones({1, 1, 1}), tap = ones({1, 1, 1});
  const int64_t most = int64_t{1} << 24;
  EXPECT_EQ(conv1d_transpose(one, tap, {.stride = {most}}).to_vector(), std::vector<double>{1});
  EXPECT_ERROR(conv1d_transpose(one, tap, {.stride = {most + 1}}), ErrorCode::kUnsupported, "use a smaller");
}

TEST(HugeNumbers, FarWindowsSeeWhatLiesInTheImage) {
  // All elements but the middle one lie in the padding.
  for (int axes = 1; axes <= 3; ++axes) {
    SCOPED_TRACE(axes);
    Dims middle, one_more;
    for (int i = 0; i < axes; ++i) middle.push_back(1), one_more.push_back(2);
    const Tensor whole = kernel(axes);
    Dims starts = middle, stops = one_more;
    for (const int64_t extent : {2, 4}) starts.push_back(0), stops.push_back(extent);
    const Tensor center = slice(whole, starts, stops);
    const Tensor want = convolution(image(axes), center, {});
    for (const int64_t dilation : {int64_t{5}, int64_t{20'000}, (int64_t{1} << 22)}) {
      const Tensor got = convolution(image(axes), whole, {},
                                     {.padding = Padding::same(), .dilation = repeated(dilation, axes)});
      EXPECT_THAT(got.to_vector(), Pointwise(testing::DoubleNear(1e-3), want.to_vector())) << dilation;
    }
    const Tensor strided =
        convolution(image(axes), whole, {}, {.stride = repeated(k29, axes), .padding = Padding::same()});
    EXPECT_EQ(strided.elems(), 4);
  }
}

TEST(HugeNumbers, WindowsLargerThanTheImageCostNoMoreThanIt) {
  const Tensor x = reshape(arange(2000, DType::kF32), {1, 2000, 1});
  const Dims window{(int64_t{1} << 24) - 1};
  const PoolingOptions options{.stride = {1}, .padding = Padding::same()};
  const std::vector<double> largest = max_pool(x, window, options).to_vector();
  const std::vector<double> mean = average_pool(x, window, options).to_vector();
  ASSERT_EQ(largest.size(), 2000u);
  for (const size_t at : {0u, 999u, 1999u}) {
    EXPECT_EQ(largest[at], 1999);
    EXPECT_NEAR(mean[at], 999.5, 1e-3);
  }
}

TEST(HugeNumbers, TensorsThatNoMemoryHoldsAreRefused) {
  const Tensor x = ones({2, 2});
  const Tensor indices = zeros({2}, DType::kI64);
  for (const int64_t number : {int64_t{1} << 50, k62}) {
    expect_refused([&] { arange(number); });
    expect_refused([&] { full({number}, 1); });
    expect_refused([&] { zeros({number, number}); });
    expect_refused([&] { pad(x, {0, number}, {0, 0}); });
    expect_refused([&] { pad(x, {number, number}, {number, number}); });
    expect_refused([&] { one_hot(indices, number); });
    expect_refused([&] { scatter_add(x, indices, number); });
    expect_refused([&] { resize(ones({1, 2, 2, 1}), {number, number}); });
    expect_refused([&] { resize(ones({1, 2, 2, 1}), {number, 1}); });
    expect_refused([&] { split(x, number); });
  }
}

}  // namespace
}  // namespace isochron
