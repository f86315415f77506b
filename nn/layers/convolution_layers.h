// Layers of convolution and pooling along one, two or three spatial axes: Conv1D, Conv2D, Conv3D and so on.
// Images are (N, spatial..., C): (N, W, C), (N, H, W, C) or (N, D, H, W, C). Windows, strides and dilations
// have one number per spatial axis; an empty stride or dilation means all ones. Included by
// nn/layers/layers.h.
#pragma once

#include "isochron/nn/module/activation.h"
#include "isochron/nn/module/module.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/convolution/pooling.h"

namespace isochron::nn {

struct ConvOptions {
  Dims stride = {};
  Padding padding = Padding::valid();
  Dims dilation = {};
  int64_t groups = 1;
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer bias_initializer = init::zeros();
};

struct DepthwiseConvOptions {
  /// Output channels per input channel. The output channels of one input channel are adjacent.
  int64_t multiplier = 1;
  Dims stride = {};
  Padding padding = Padding::valid();
  Dims dilation = {};
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer bias_initializer = init::zeros();
};

struct ConvTransposeOptions {
  Dims stride = {};
  Padding padding = Padding::valid();
  Dims dilation = {};
  int64_t groups = 1;
  /// See ConvolutionTransposeOptions.
  Dims output_padding = {};
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer bias_initializer = init::zeros();
};

/// The common base of the layers with a kernel. The kernel and the bias are built on the first call.
class ConvolutionLayer : public Module {
 public:
  /// Throws the errors of the corresponding op, and kShapeMismatch if the groups don't divide the channels.
  Tensor forward(const Tensor& x) final;
  void members(Members& list) override { list("kernel", kernel_)("bias", bias_); }
  std::string_view kind() const override { return kind_; }
  bool has_activation() const override { return parameters_.activation != Activation::kNone; }
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 protected:
  struct Parameters {
    Activation activation;
    bool bias;
    Initializer kernel_initializer;
    Initializer bias_initializer;
  };
  /// The kernel's last two axes, and the channels of the result.
  struct Channels {
    int64_t kernel[2];
    int64_t result;
  };
  /// `kind` must refer to a string with static lifetime. Throws kInvalidArgument unless `window` has `axes`
  /// extents >= 1.
  ConvolutionLayer(std::string_view kind, int axes, const Dims& window, Parameters parameters);

 private:
  virtual Channels channels_for(int64_t input_channels) const = 0;
  /// The last two axes of the kernel as initializers see it.
  virtual Channels drawn_for(int64_t input_channels) const { return channels_for(input_channels); }
  /// `bias` may be undefined.
  virtual Tensor compute(const Tensor& x, const Tensor& kernel, const Tensor& bias) const = 0;

  std::string_view kind_;
  int axes_;
  Dims window_;
  Parameters parameters_;
  Variable kernel_;
  Variable bias_;
};

/// activation(convolution(x, kernel) + bias). kernel: (window..., C / groups, filters), bias: (filters);
/// result (N, spatial..., filters).
class Convolution : public ConvolutionLayer {
 protected:
  /// Throws kInvalidArgument unless filters and groups are >= 1.
  Convolution(int axes, int64_t filters, const Dims& window, Activation activation, ConvOptions options);

 private:
  Channels channels_for(int64_t input_channels) const override;
  Tensor compute(const Tensor& x, const Tensor& kernel, const Tensor& bias) const override;
  int64_t filters_;
  ConvOptions options_;
};

/// Convolves each channel separately. kernel: (window..., 1, C multiplier). Initializers see it in Keras's
/// shape (window..., C, multiplier), which has the same order of elements. Result (N, spatial..., C
/// multiplier).
class DepthwiseConvolution : public ConvolutionLayer {
 public:
  int64_t multiplier() const { return options_.multiplier; }

 protected:
  /// Throws kInvalidArgument unless the multiplier is >= 1.
  DepthwiseConvolution(int axes, const Dims& window, Activation activation, DepthwiseConvOptions options);

 private:
  Channels channels_for(int64_t input_channels) const override;
  Channels drawn_for(int64_t input_channels) const override;
  Tensor compute(const Tensor& x, const Tensor& kernel, const Tensor& bias) const override;
  DepthwiseConvOptions options_;
};

/// activation(convolution_transpose(x, kernel) + bias). kernel: (window..., filters / groups, C), bias:
/// (filters); result (N, spatial..., filters).
class ConvolutionTranspose : public ConvolutionLayer {
 protected:
  /// Throws kInvalidArgument unless filters and groups are >= 1 and the groups divide the filters.
  ConvolutionTranspose(int axes, int64_t filters, const Dims& window, Activation activation,
                       ConvTransposeOptions options);

 private:
  Channels channels_for(int64_t input_channels) const override;
  Tensor compute(const Tensor& x, const Tensor& kernel, const Tensor& bias) const override;
  int64_t filters_;
  ConvTransposeOptions options_;
};

template <int kAxes>
class ConvAlong : public Convolution {
 public:
  ConvAlong(int64_t filters, const Dims& window, Activation activation = Activation::kNone,
            ConvOptions options = {})
      : Convolution(kAxes, filters, window, activation, std::move(options)) {}
};
using Conv1D = ConvAlong<1>;
using Conv2D = ConvAlong<2>;
using Conv3D = ConvAlong<3>;

template <int kAxes>
class DepthwiseConvAlong : public DepthwiseConvolution {
 public:
  explicit DepthwiseConvAlong(const Dims& window, Activation activation = Activation::kNone,
                              DepthwiseConvOptions options = {})
      : DepthwiseConvolution(kAxes, window, activation, std::move(options)) {}
};
using DepthwiseConv1D = DepthwiseConvAlong<1>;
using DepthwiseConv2D = DepthwiseConvAlong<2>;
using DepthwiseConv3D = DepthwiseConvAlong<3>;

template <int kAxes>
class ConvTransposeAlong : public ConvolutionTranspose {
 public:
  ConvTransposeAlong(int64_t filters, const Dims& window, Activation activation = Activation::kNone,
                     ConvTransposeOptions options = {})
      : ConvolutionTranspose(kAxes, filters, window, activation, std::move(options)) {}
};
using Conv1DTranspose = ConvTransposeAlong<1>;
using Conv2DTranspose = ConvTransposeAlong<2>;
using Conv3DTranspose = ConvTransposeAlong<3>;

enum class PoolKind { kMax, kAverage };

/// The largest element, or the mean, of each window (see ops/convolution/pooling.h).
template <PoolKind kKind, int kAxes>
class Pool : public Module {
 public:
  /// Throws kInvalidArgument unless `window` has `kAxes` extents >= 1.
  explicit Pool(const Dims& window, PoolingOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override;

 private:
  Dims window_;
  PoolingOptions options_;
};
using MaxPool1D = Pool<PoolKind::kMax, 1>;
using MaxPool2D = Pool<PoolKind::kMax, 2>;
using MaxPool3D = Pool<PoolKind::kMax, 3>;
using AveragePool1D = Pool<PoolKind::kAverage, 1>;
using AveragePool2D = Pool<PoolKind::kAverage, 2>;
using AveragePool3D = Pool<PoolKind::kAverage, 3>;

/// Global pooling over all pixels: (N, spatial..., C) to (N, C), or to (N, 1..., C) if `keep_dims`.
template <PoolKind kKind, int kAxes>
class GlobalPool : public Module {
 public:
  explicit GlobalPool(bool keep_dims = false) : keep_dims_(keep_dims) {}
  /// Throws kShapeMismatch if x doesn't have kAxes spatial axes.
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override;

 private:
  bool keep_dims_;
};
using GlobalMaxPool1D = GlobalPool<PoolKind::kMax, 1>;
using GlobalMaxPool2D = GlobalPool<PoolKind::kMax, 2>;
using GlobalMaxPool3D = GlobalPool<PoolKind::kMax, 3>;
using GlobalAveragePool1D = GlobalPool<PoolKind::kAverage, 1>;
using GlobalAveragePool2D = GlobalPool<PoolKind::kAverage, 2>;
using GlobalAveragePool3D = GlobalPool<PoolKind::kAverage, 3>;

/// The largest element, or the mean, of windows that cover the image evenly: (N, spatial..., C) to
/// (N, size..., C), see adaptive_max_pool in ops/convolution/pooling.h. An entry of -1 keeps the axis.
template <PoolKind kKind, int kAxes>
class AdaptivePool : public Module {
 public:
  /// Throws kInvalidArgument unless `size` has `kAxes` extents >= 1, or -1.
  explicit AdaptivePool(const Dims& size);
  /// Throws kShapeMismatch if x doesn't have kAxes spatial axes, and as adaptive_max_pool.
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override;

 private:
  Dims size_;
};
using AdaptiveMaxPool1D = AdaptivePool<PoolKind::kMax, 1>;
using AdaptiveMaxPool2D = AdaptivePool<PoolKind::kMax, 2>;
using AdaptiveMaxPool3D = AdaptivePool<PoolKind::kMax, 3>;
using AdaptiveAveragePool1D = AdaptivePool<PoolKind::kAverage, 1>;
using AdaptiveAveragePool2D = AdaptivePool<PoolKind::kAverage, 2>;
using AdaptiveAveragePool3D = AdaptivePool<PoolKind::kAverage, 3>;

}  // namespace isochron::nn
