// Small reference models; larger ones have headers of their own (nn/models/resnet.h, nn/models/gpt.h).
#pragma once

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/nn/module/sequential.h"

namespace isochron::nn {

/// Dense layers of these widths; the activation follows each of them except the last. Throws kInvalidArgument
/// if `widths` is empty.
Sequential mlp(const std::vector<int64_t>& widths, Activation activation = Activation::kRelu);
/// Two convolutions with pooling and three dense layers (LeCun et al.: "Gradient-based learning applied to
/// document recognition", 1998), with relu and max pooling instead of tanh and average pooling. x: (N, H, W,
/// C) with H and W at least 12; result (N, classes), logits.
Sequential lenet(int64_t classes = 10);

/// Forecasters: (N, T, C) to (N, outputs), with `units` hidden units in each of `layers` recurrent layers.
Sequential lstm_forecaster(int64_t units = 64, int64_t layers = 1, int64_t outputs = 1);
Sequential gru_forecaster(int64_t units = 64, int64_t layers = 1, int64_t outputs = 1);

struct TemporalConvolutionOptions {
  int64_t filters = 32;
  int64_t window = 3;
  /// Block i has dilation 2^i: the last step sees 1 + 2 (window - 1) (2^blocks - 1) steps.
  int64_t blocks = 5;
  double dropout = 0;
  int64_t outputs = 1;
};

/// Two causal dilated convolutions and a shortcut around them.
class TemporalBlock : public Module {
 public:
  TemporalBlock(const TemporalConvolutionOptions& options, int64_t dilation, bool widens);
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "temporal_block"; }

 private:
  Conv1D first_, second_;
  std::unique_ptr<Conv1D> shortcut_;
  Dropout dropout_;
};

/// A forecaster made of causal convolutions (Bai, Kolter, Koltun: "An Empirical Evaluation of Generic
/// Convolutional and Recurrent Networks for Sequence Modeling", 2018): (N, T, C) to (N, outputs), computed
/// from the last step.
class TemporalConvolutionForecaster : public Module {
 public:
  /// Throws kInvalidArgument unless all sizes are >= 1.
  explicit TemporalConvolutionForecaster(const TemporalConvolutionOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "temporal_convolution_forecaster"; }

 private:
  std::vector<std::unique_ptr<TemporalBlock>> blocks_;
  Dense out_;
};

}  // namespace isochron::nn
