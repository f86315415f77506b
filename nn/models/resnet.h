// Residual networks (He, Zhang, Ren, Sun: "Deep Residual Learning for Image Recognition", CVPR 2016).
#pragma once

#include <functional>
#include <string>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"

namespace isochron::nn {

struct ResNetOptions {
  std::vector<int64_t> blocks;  // in each stage
  std::vector<int64_t> widths;  // channels of each stage's 3x3 convolutions
  /// Use blocks of a 1x1, a 3x3 and a 1x1 convolution (the last four times as wide) instead of two 3x3
  /// convolutions.
  bool bottleneck = false;
  /// For images of about 32x32 pixels: begin with a 3x3 convolution. Otherwise begin with a 7x7 convolution
  /// of stride 2 and 3x3 max pooling of stride 2.
  bool small_images = true;
  int64_t classes = 10;
  BatchNormOptions norm = {.momentum = 0.9, .epsilon = 1e-5};
};

/// Convolution without bias, batch normalization, and an activation.
class NormalizedConv : public Module {
 public:
  NormalizedConv(int64_t filters, int64_t window, int64_t stride, Activation activation,
                 const BatchNormOptions& norm);
  Tensor forward(const Tensor& x) override { return activate(norm_(convolution_(x)), activation_); }
  void members(Members& list) override { list("convolution", convolution_)("norm", norm_); }
  std::string_view kind() const override { return "normalized_conv"; }

 private:
  Conv2D convolution_;
  BatchNorm norm_;
  Activation activation_;
};

/// relu(path(x) + shortcut(x)). The shortcut is x itself, or a 1x1 convolution if the shapes differ.
class ResidualBlock : public Module {
 public:
  ResidualBlock(int64_t inputs, int64_t width, int64_t stride, const ResNetOptions& options);
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "residual_block"; }
  /// Channels of the result.
  static int64_t outputs(int64_t width, const ResNetOptions& options) {
    return options.bottleneck ? 4 * width : width;
  }

 private:
  std::vector<std::unique_ptr<NormalizedConv>> path_;
  std::unique_ptr<NormalizedConv> shortcut_;
};

/// x: (N, H, W, channels); result (N, classes), logits.
class ResNet : public Module {
 public:
  /// Throws kInvalidArgument unless there are as many widths as stages, all >= 1.
  explicit ResNet(const ResNetOptions& options);
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "resnet"; }
  const ResNetOptions& options() const { return options_; }

 private:
  ResNetOptions options_;
  NormalizedConv stem_;
  std::vector<std::unique_ptr<ResidualBlock>> blocks_;
  Dense classifier_;
};

/// Converts the name of a tensor under Convention::kPyTorch to its name in torchvision.models.resnet, such as
/// "layer2.0.conv1.weight" or "fc.bias", for weights that are published under these names:
///   load_weights(model, "resnet50.safetensors",
///                {.naming = {.convention = Convention::kPyTorch,
///                            .rename = torchvision_names(model.options())}});
/// Throws kInvalidArgument for a name that isn't of such a network.
std::function<std::string(const std::string& name)> torchvision_names(const ResNetOptions& options);

/// For CIFAR-sized images, 0.27 million parameters.
ResNet resnet20(int64_t classes = 10, const BatchNormOptions& norm = ResNetOptions().norm);
/// For ImageNet-sized images, 25.6 million parameters with 1,000 classes.
ResNet resnet50(int64_t classes = 1000, const BatchNormOptions& norm = ResNetOptions().norm);

}  // namespace isochron::nn
