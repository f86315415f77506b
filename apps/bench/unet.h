// The model of the case `unet`.
#pragma once

#include <memory>
#include <vector>

#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/layers/normalization.h"

namespace isochron::apps {

/// Two 3x3 convolutions, each with group normalization and relu.
class UNetBlock : public nn::Module {
 public:
  UNetBlock(int64_t width, int64_t groups);
  Tensor forward(const Tensor& x) override;
  void members(nn::Members& list) override;
  std::string_view kind() const override { return "unet_block"; }

 private:
  nn::Conv2D first_, second_;
  nn::GroupNorm first_norm_, second_norm_;
};

/// A small U-Net (Ronneberger, Fischer, Brox: "U-Net: Convolutional Networks for Biomedical Image
/// Segmentation", MICCAI 2015): one block per width on the way down, with pooling between blocks, and then
/// transposed convolutions on the way up, whose results are concatenated with the output of the same level on
/// the way down. x: (N, H, W, C), H and W multiples of 2^(widths - 1); result (N, H, W, outputs).
class UNet : public nn::Module {
 public:
  UNet(const std::vector<int64_t>& widths, int64_t groups, int64_t outputs);
  Tensor forward(const Tensor& x) override;
  void members(nn::Members& list) override;
  std::string_view kind() const override { return "unet"; }

 private:
  std::vector<std::unique_ptr<UNetBlock>> down_;
  std::vector<std::unique_ptr<nn::Conv2DTranspose>> raise_;  // from the lowest level up
  std::vector<std::unique_ptr<UNetBlock>> up_;
  nn::Conv2D head_;
};

}  // namespace isochron::apps
