// Layers. Their parameters take the dtype of the first input and are built when it comes.
#pragma once

#include "isochron/nn/activation.h"
#include "isochron/nn/module.h"
#include "isochron/ops/convolution.h"
#include "isochron/ops/pooling.h"

namespace isochron::nn {

struct DenseOptions {
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer bias_initializer = init::zeros();
};
/// activation(x kernel + bias). x: (..., inputs), kernel: (inputs, units), bias: (units); result (...,
/// units).
class Dense : public Module {
 public:
  /// Throws kInvalidArgument unless units >= 1.
  explicit Dense(int64_t units, Activation activation = Activation::kNone, DenseOptions options = {});
  /// Throws kShapeMismatch for an input of another width than the first.
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("kernel", kernel_)("bias", bias_); }
  std::string_view kind() const override { return "dense"; }
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 private:
  int64_t units_;
  Activation activation_;
  DenseOptions options_;
  Variable kernel_;
  Variable bias_;
};

struct Conv2DOptions {
  Dims stride = {1, 1};
  Padding padding = Padding::valid();
  Dims dilation = {1, 1};
  int64_t groups = 1;
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer bias_initializer = init::zeros();
};
/// activation(conv2d(x, kernel) + bias). x: (N, H, W, C), kernel: (KH, KW, C / groups, filters), bias:
/// (filters); result (N, OH, OW, filters).
class Conv2D : public Module {
 public:
  /// `window`: {KH, KW}. Throws kInvalidArgument unless filters >= 1 and the window has two extents >= 1.
  Conv2D(int64_t filters, const Dims& window, Activation activation = Activation::kNone,
         Conv2DOptions options = {});
  /// Throws as conv2d.
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("kernel", kernel_)("bias", bias_); }
  std::string_view kind() const override { return "conv2d"; }
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 private:
  int64_t filters_;
  Dims window_;
  Activation activation_;
  Conv2DOptions options_;
  Variable kernel_;
  Variable bias_;
};

/// The largest element of each window (see ops/pooling.h).
class MaxPool2D : public Module {
 public:
  explicit MaxPool2D(const Dims& window, PoolingOptions options = {})
      : window_(window), options_(std::move(options)) {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, window_, options_); }
  std::string_view kind() const override { return "max_pool2d"; }

 private:
  Dims window_;
  PoolingOptions options_;
};

/// The mean of each window's elements inside the image.
class AveragePool2D : public Module {
 public:
  explicit AveragePool2D(const Dims& window, PoolingOptions options = {})
      : window_(window), options_(std::move(options)) {}
  Tensor forward(const Tensor& x) override { return average_pool2d(x, window_, options_); }
  std::string_view kind() const override { return "average_pool2d"; }

 private:
  Dims window_;
  PoolingOptions options_;
};

/// (N, ...) to (N, elements of a sample).
class Flatten : public Module {
 public:
  /// Throws kShapeMismatch for a scalar.
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override { return "flatten"; }
};

/// In training, elements are 0 with probability `rate` and else x / (1 - rate), drawn anew at every step
/// (Srivastava et al., JMLR 2014); otherwise x.
class Dropout : public Module {
 public:
  /// Throws kInvalidArgument unless rate lies in [0, 1).
  explicit Dropout(double rate);
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override { return "dropout"; }

 private:
  double rate_;
};

/// An activation as a layer of its own.
class Activate : public Module {
 public:
  explicit Activate(Activation activation) : activation_(activation) {}
  Tensor forward(const Tensor& x) override { return activate(x, activation_); }
  std::string_view kind() const override { return "activation"; }

 private:
  Activation activation_;
};

}  // namespace isochron::nn
