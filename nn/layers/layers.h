// Layers. Their parameters are built on the first call and have the dtype of the first input. That input must
// be floating (kDtypeMismatch).
#pragma once

#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/module/activation.h"
#include "isochron/nn/module/module.h"

namespace isochron::nn {

struct DenseOptions {
  bool bias = true;
  bool float8 = true;  // whether Precision::kMixedFp8 may round its operands to 8 bits
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer bias_initializer = init::zeros();
};
/// activation(x kernel + bias). x: (..., inputs), kernel: (inputs, units), bias: (units); result (...,
/// units). If the layer is traced in f32 for Precision::kMixedFp8, and inputs and units are multiples of 16
/// (as devices require), the product is matmul_float8. Training then keeps the largest magnitudes of input,
/// kernel and gradient in buffers.
class Dense : public Module {
 public:
  /// Throws kInvalidArgument unless units >= 1.
  explicit Dense(int64_t units, Activation activation = Activation::kNone, DenseOptions options = {});
  /// Throws kShapeMismatch for a scalar, or if the input's width differs from that of the first input.
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "dense"; }
  bool has_activation() const override { return activation_ != Activation::kNone; }
  const Variable& kernel() const { return kernel_; }
  const Variable& bias() const { return bias_; }

 private:
  Tensor product(const Tensor& x);

  int64_t units_;
  Activation activation_;
  DenseOptions options_;
  Variable kernel_;
  Variable bias_;
  Variable input_history_, kernel_history_, gradient_history_;  // undefined without products in 8 bits
};

/// (N, ...) to (N, elements of a sample).
class Flatten : public Module {
 public:
  /// Throws kShapeMismatch for a scalar.
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override { return "flatten"; }
};

/// In training, each element is 0 with probability `rate` and x / (1 - rate) otherwise, drawn anew at every
/// step (Srivastava et al., JMLR 2014). Outside training, returns x.
class Dropout : public Module {
 public:
  /// Throws kInvalidArgument unless rate lies in [0, 1).
  explicit Dropout(double rate);
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override { return "dropout"; }

 private:
  double rate_;
};

/// In training, each channel (last axis) of a sample is 0 everywhere with probability `rate`, and
/// x / (1 - rate) otherwise (Tompson et al. 2015; PyTorch's Dropout1d to 3d). x: (N, spatial..., C). Outside
/// training, returns x.
class SpatialDropout : public Module {
 public:
  /// Throws kInvalidArgument unless rate lies in [0, 1).
  explicit SpatialDropout(double rate) : channels_(rate) {}
  /// Throws kShapeMismatch for a scalar.
  Tensor forward(const Tensor& x) override;
  std::string_view kind() const override { return "spatial_dropout"; }

 private:
  Dropout channels_;
};

/// x > 0 ? x : slope x, with a slope that is learned (He et al. 2015).
class PRelu : public Module {
 public:
  /// `per_channel`: one slope for each channel of the last axis; else one for all.
  explicit PRelu(bool per_channel = false, Initializer initializer = init::constant(0.25))
      : per_channel_(per_channel), initializer_(std::move(initializer)) {}
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("slope", slope_); }
  std::string_view kind() const override { return "prelu"; }

 private:
  bool per_channel_;
  Initializer initializer_;
  Variable slope_;
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
