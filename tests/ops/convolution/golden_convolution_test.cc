// Convolution, its transpose and pooling along one, two and three axes with their gradients against PyTorch's
// (tests/golden/README.md).
#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "support/near.h"

namespace isochron {
namespace {

class GoldenConvolution : public testing::Test {
 protected:
  /// function(inputs...) and the gradients of sum(y * dy) against the arrays of `name`, in both dtypes.
  template <typename Function>
  void check(const std::string& name, const std::vector<std::string>& inputs, Function function) {
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      SCOPED_TRACE(name + (dtype == DType::kF64 ? " f64" : " f32"));
      const double tolerance = dtype == DType::kF64 ? 1e-12 : 2e-5;
      const auto at = [&](const std::string& what) { return cast(arrays_.at(name + "." + what), dtype); };
      std::vector<Tensor> sources;
      for (const std::string& input : inputs) sources.push_back(at(input));
      GradientTape tape;
      const Tensor y = function(sources);
      const Tensor seed = at("dy");
      const std::vector<Tensor> gradients = tape.gradient({&y, 1}, sources, {&seed, 1});
      EXPECT_TRUE(near(y, at("y"), tolerance, tolerance));
      for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_TRUE(near(gradients[i], at("d" + inputs[i]), tolerance, tolerance)) << inputs[i];
      }
    }
  }

  using Convolve = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvolutionOptions&);
  void convolved(const std::string& name, Convolve function, const ConvolutionOptions& options) {
    check(name, {"x", "kernel", "bias"},
          [&](const std::vector<Tensor>& in) { return function(in[0], in[1], in[2], options); });
  }
  using Transpose = Tensor (*)(const Tensor&, const Tensor&, const Tensor&,
                               const ConvolutionTransposeOptions&);
  void transposed(const std::string& name, Transpose function, const ConvolutionTransposeOptions& options) {
    check(name, {"x", "kernel", "bias"},
          [&](const std::vector<Tensor>& in) { return function(in[0], in[1], in[2], options); });
  }
  using Pool = Tensor (*)(const Tensor&, const Dims&, const PoolingOptions&);
  void pooled(const std::string& name, Pool maximum, Pool average, const Dims& window,
              PoolingOptions options) {
    const auto with = [&](Pool pool) {
      return [&, pool](const std::vector<Tensor>& in) { return pool(in[0], window, options); };
    };
    check(name + ".max", {"x"}, with(maximum));
    check(name + ".average", {"x"}, with(average));
    options.count_padding = true;
    check(name + ".average_padded", {"x"}, with(average));
  }

  data::NpzFile arrays_ = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/convolution_torch.npz");
};

TEST_F(GoldenConvolution, AlongOneAxis) {
  convolved("conv1d.plain", conv1d, {});
  convolved("conv1d.causal", conv1d, {.padding = Padding::causal(), .dilation = {2}});
  convolved("conv1d.same_stride2", conv1d, {.stride = {2}, .padding = Padding::same(), .groups = 2});
  convolved("conv1d.depthwise", conv1d, {.padding = Padding::same(), .groups = 5});
}

TEST_F(GoldenConvolution, Depthwise) {
  convolved("conv2d.depthwise", conv2d, {.padding = Padding::explicitly(1, 1, 1, 1), .groups = 18});
  convolved("conv2d.depthwise_multiplied", conv2d,
            {.stride = {2, 1}, .padding = Padding::same(), .dilation = {1, 2}, .groups = 3});
}

TEST_F(GoldenConvolution, AlongThreeAxes) {
  convolved("conv3d.plain", conv3d, {});
  convolved("conv3d.padded", conv3d,
            {.stride = {2, 1, 2}, .padding = Padding::explicitly(1, 0, 0, 2, 1, 1), .dilation = {1, 1, 2}});
  convolved("conv3d.same_groups2", conv3d, {.stride = {2, 1, 1}, .padding = Padding::same(), .groups = 2});
  convolved("conv3d.depthwise", conv3d, {.stride = {1, 2, 1}, .padding = Padding::same(), .groups = 6});
}

TEST_F(GoldenConvolution, Transposed) {
  transposed("conv1d_transpose.plain", conv1d_transpose, {});
  transposed("conv1d_transpose.stride3", conv1d_transpose,
             {.stride = {3},
              .padding = Padding::explicitly(1, 1),
              .dilation = {2},
              .groups = 2,
              .output_padding = {2}});
  transposed("conv2d_transpose.plain", conv2d_transpose, {});
  const Padding ones = Padding::explicitly(1, 1, 1, 1);
  transposed("conv2d_transpose.stride2", conv2d_transpose,
             {.stride = {2, 2}, .padding = ones, .output_padding = {1, 0}});
  transposed("conv2d_transpose.stride2", conv2d_transpose,
             {.stride = {2, 2}, .padding = ones, .output_size = {8, 5}});
  transposed("conv2d_transpose.groups", conv2d_transpose,
             {.stride = {2, 1}, .padding = Padding::explicitly(0, 0, 1, 1), .dilation = {1, 2}, .groups = 2});
  transposed("conv2d_transpose.depthwise", conv2d_transpose,
             {.stride = {2, 2}, .padding = ones, .groups = 4, .output_padding = {1, 1}});
  transposed(
      "conv3d_transpose.stride2", conv3d_transpose,
      {.stride = {2, 1, 2}, .padding = Padding::explicitly(1, 1, 0, 0, 1, 1), .output_padding = {1, 0, 0}});
}

TEST_F(GoldenConvolution, Pooling) {
  pooled("pool1d", max_pool1d, average_pool1d, {3}, {{2}, Padding::explicitly(1, 1)});
  pooled("pool2d", max_pool2d, average_pool2d, {3, 2}, {{2, 2}, Padding::explicitly(1, 1, 1, 1)});
  pooled("pool3d", max_pool3d, average_pool3d, {2, 3, 2}, {{2, 1, 2}, Padding::explicitly(1, 1, 1, 1, 0, 0)});
}

}  // namespace
}  // namespace isochron
