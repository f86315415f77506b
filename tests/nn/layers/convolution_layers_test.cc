#include "isochron/nn/layers/convolution_layers.h"

#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

/// The output shape of a layer for an input of `shape`, and the shape of its kernel.
template <typename Layer>
std::pair<Shape, Shape> shapes(Layer layer, const Shape& shape) {
  const Shape result = layer(zeros(shape)).shape();
  return {result, layer.kernel().shape()};
}
using Shapes = std::pair<Shape, Shape>;

TEST(Conv, BuildsAKernelForItsAxes) {
  EXPECT_EQ(
      shapes(Conv1D(6, {3}, Activation::kRelu, {.stride = {2}, .padding = Padding::causal()}), {2, 9, 4}),
      (Shapes{{2, 5, 6}, {3, 4, 6}}));
  EXPECT_EQ(shapes(Conv2D(6, {3, 2}, Activation::kNone, {.padding = Padding::same()}), {2, 8, 7, 4}),
            (Shapes{{2, 8, 7, 6}, {3, 2, 4, 6}}));
  EXPECT_EQ(shapes(Conv3D(6, {3, 2, 1}, Activation::kNone, {.groups = 2}), {2, 5, 6, 7, 4}),
            (Shapes{{2, 3, 5, 7, 6}, {3, 2, 1, 2, 6}}));
}

TEST(DepthwiseConv, MultipliesTheChannels) {
  EXPECT_EQ(shapes(DepthwiseConv1D({3}), {2, 9, 4}), (Shapes{{2, 7, 4}, {3, 1, 4}}));
  EXPECT_EQ(
      shapes(DepthwiseConv2D({3, 3}, Activation::kNone, {.multiplier = 2, .stride = {2, 2}}), {2, 9, 9, 4}),
      (Shapes{{2, 4, 4, 8}, {3, 3, 1, 8}}));
  EXPECT_EQ(shapes(DepthwiseConv3D({1, 2, 2}), {1, 3, 3, 3, 5}), (Shapes{{1, 3, 2, 2, 5}, {1, 2, 2, 1, 5}}));
  DepthwiseConv1D layer({2}, Activation::kNone, {.multiplier = 2});
  layer.build({DType::kF32, {1, 2, 2}});
  layer.kernel().assign(from_vector({2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(layer(from_vector({1, 2, 2}, {1, 10, 100, 1000})).to_vector(),
            (std::vector<double>{501, 602, 7030, 8040}));
  EXPECT_ERROR(DepthwiseConv2D({3, 3}, Activation::kNone, {.multiplier = 0}), ErrorCode::kInvalidArgument,
               "multiplier");
}

TEST(DepthwiseConv, DrawsItsKernelAsKeras) {
  // Glorot's limit of Keras' (3, 3, 4, 2) kernel: fans of 36 and 18.
  set_initializer_seed(1);
  DepthwiseConv2D layer({3, 3}, Activation::kNone, {.multiplier = 2});
  layer.build({DType::kF64, {1, 5, 5, 4}});
  const double largest = max(abs(layer.kernel())).item<double>();
  const double limit = std::sqrt(6.0 / 54);
  EXPECT_LT(largest, limit);
  EXPECT_GT(largest, 0.9 * limit);
}

TEST(ConvTranspose, UndoesTheShapeOfConv) {
  EXPECT_EQ(shapes(Conv1DTranspose(5, {4}, Activation::kNone, {.stride = {2}}), {2, 6, 3}),
            (Shapes{{2, 14, 5}, {4, 5, 3}}));
  EXPECT_EQ(shapes(Conv2DTranspose(6, {3, 3}, Activation::kRelu,
                                   {.stride = {2, 2}, .padding = Padding::same(), .groups = 2}),
                   {2, 4, 5, 4}),
            (Shapes{{2, 8, 10, 6}, {3, 3, 3, 4}}));
  EXPECT_EQ(shapes(Conv3DTranspose(2, {2, 2, 2}, Activation::kNone,
                                   {.stride = {2, 2, 2}, .output_padding = {1, 0, 1}}),
                   {1, 2, 2, 2, 3}),
            (Shapes{{1, 5, 4, 5, 2}, {2, 2, 2, 2, 3}}));
  EXPECT_ERROR(Conv2DTranspose(3, {3, 3}, Activation::kNone, {.groups = 2}), ErrorCode::kInvalidArgument,
               "divide the filters");
}

TEST(ConvolutionLayers, TrainTogether) {
  Sequential model(Conv1D(4, {3}, Activation::kTanh), DepthwiseConv1D({3}), MaxPool1D({2}),
                   Conv1DTranspose(3, {2}, Activation::kTanh, {.stride = {2}}), AveragePool1D({2}),
                   GlobalAveragePool1D(), Dense(1));
  EXPECT_EQ(model.build({DType::kF32, {5, 20, 2}}).shape, (Shape{5, 1}));
  const auto names = model.named_parameters();
  ASSERT_EQ(names.size(), 8u);
  EXPECT_EQ(names[0].first, "conv1d/kernel");
  EXPECT_EQ(names[2].first, "depthwise_conv1d/kernel");
  EXPECT_EQ(names[5].first, "conv1d_transpose/bias");
  GradientTape tape;
  const Tensor loss = sum(square(model(ones({5, 20, 2}))));
  const std::vector<Variable> parameters = model.parameters();
  const std::vector<Tensor> sources(parameters.begin(), parameters.end());
  const std::vector<Tensor> gradients = tape.gradient({&loss, 1}, sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    ASSERT_TRUE(gradients[i].defined());
    EXPECT_EQ(gradients[i].shape(), sources[i].shape());
  }
}

TEST(Conv2D, SumsItsWindowPerGroup) {
  Conv2D conv(2, {2, 2}, Activation::kNone,
              {.stride = {2, 2}, .groups = 2, .kernel_initializer = init::ones()});
  Sequential model(std::move(conv), MaxPool2D({1, 2}), Flatten());
  // One image of 2 x 4 pixels, channel 1 ten times channel 0.
  const Tensor x = from_vector({1, 2, 4, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 7, 70, 8, 80});
  EXPECT_EQ(model(x).to_vector(), (std::vector<double>{22, 220}));
  EXPECT_EQ(model.parameters()[0].shape(), (Shape{2, 2, 1, 2}));
  EXPECT_EQ(model.parameters()[1].shape(), (Shape{2}));
}

TEST(Conv2D, RejectsWrongCalls) {
  EXPECT_ERROR(Conv2D(0, {3, 3}), ErrorCode::kInvalidArgument, "filters");
  EXPECT_ERROR(Conv2D(4, {3}), ErrorCode::kInvalidArgument, "{height, width}");
  EXPECT_ERROR(Conv3D(4, {3, 3}), ErrorCode::kInvalidArgument, "{depth, height, width}");
  EXPECT_ERROR(Conv1D(4, {0}), ErrorCode::kInvalidArgument, "extents >= 1");
  EXPECT_ERROR(Conv2D(4, {3, 3})(ones({8, 8, 1})), ErrorCode::kShapeMismatch, "images are (N, H, W, C)");
  EXPECT_ERROR(Conv2D(4, {3, 3}, Activation::kNone, {.groups = 2})(ones({1, 8, 8, 3})),
               ErrorCode::kShapeMismatch, "2 groups");
}

TEST(Pool, AveragesWindows) {
  AveragePool2D pool({2, 2});
  EXPECT_EQ(pool(from_vector({1, 2, 2, 1}, {1, 2, 3, 6})).to_vector(), (std::vector<double>{3}));
}

TEST(Pool, SlidesAlongItsAxes) {
  EXPECT_EQ(MaxPool1D({2})(from_vector({1, 4, 1}, {1, 5, 3, 2})).to_vector(), (std::vector<double>{5, 3}));
  EXPECT_EQ(
      AveragePool1D({2}, {{1}, Padding::explicitly(1, 0), true})(from_vector({1, 2, 1}, {4, 6})).to_vector(),
      (std::vector<double>{2, 5}));
  EXPECT_EQ(MaxPool3D({2, 1, 3})(zeros({1, 4, 4, 6, 2})).shape(), (Shape{1, 2, 4, 2, 2}));
  EXPECT_EQ(AveragePool3D({2, 2, 2}).kind(), "average_pool3d");
  EXPECT_ERROR(MaxPool2D({2}), ErrorCode::kInvalidArgument,
               "[max_pool2d] the window must be {height, width}");
  EXPECT_ERROR(MaxPool1D({2})(zeros({1, 4, 4, 1})), ErrorCode::kShapeMismatch, "images are (N, W, C)");
}

TEST(GlobalPool, ReducesAllPixels) {
  EXPECT_EQ(GlobalAveragePool2D()(zeros({2, 3, 4, 5})).shape(), (Shape{2, 5}));
  EXPECT_EQ(GlobalMaxPool3D(true)(zeros({2, 3, 4, 5, 6})).shape(), (Shape{2, 1, 1, 1, 6}));
  EXPECT_EQ(GlobalMaxPool1D()(from_vector({1, 3, 1}, {1, 7, 3})).to_vector(), (std::vector<double>{7}));
  EXPECT_ERROR(GlobalMaxPool1D()(zeros({2, 3, 4, 5})), ErrorCode::kShapeMismatch, "[global_max_pool1d]");
}

TEST(AdaptivePool, MakesTheSizeThatItIsGiven) {
  EXPECT_EQ(AdaptiveAveragePool2D({7, -1})(zeros({2, 10, 4, 5})).shape(), (Shape{2, 7, 4, 5}));
  EXPECT_EQ(AdaptiveMaxPool3D({1, 2, 3})(zeros({2, 3, 5, 4, 6})).shape(), (Shape{2, 1, 2, 3, 6}));
  EXPECT_EQ(AdaptiveMaxPool1D({2})(from_vector({1, 3, 1}, {1, 7, 3})).to_vector(),
            (std::vector<double>{7, 7}));
  EXPECT_EQ(AdaptiveAveragePool1D({2}).kind(), "adaptive_average_pool1d");
  EXPECT_ERROR(AdaptiveMaxPool2D({2}), ErrorCode::kInvalidArgument,
               "[adaptive_max_pool2d] the size must be {height, width}");
  EXPECT_ERROR(AdaptiveAveragePool1D({0}), ErrorCode::kInvalidArgument, "extents >= 1, or -1");
  EXPECT_ERROR(AdaptiveMaxPool1D({2})(zeros({2, 3, 4, 5})), ErrorCode::kShapeMismatch,
               "[adaptive_max_pool1d]");
}

}  // namespace
}  // namespace isochron::nn
