// Layers. Their parameters take the dtype of the first input and are built when it comes.
#pragma once

#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/module/activation.h"
#include "isochron/nn/module/module.h"

namespace isochron::nn {

struct DenseOptions {
  bool bias = true;
  bool float8 = true;  // whether Precision::kMixedFp8 may round its factors to 8 bits
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer bias_initializer = init::zeros();
};
/// activation(x kernel + bias). x: (..., inputs), kernel: (inputs, units), bias: (units); result (...,
/// units). Where it is traced for Precision::kMixedFp8 in f32, and inputs and units are multiples of 16, as
/// devices ask for, the product is matmul_float8; training keeps the magnitudes of input, kernel and gradient
/// as buffers.
class Dense : public Module {
 public:
  /// Throws kInvalidArgument unless units >= 1.
  explicit Dense(int64_t units, Activation activation = Activation::kNone, DenseOptions options = {});
  /// Throws kShapeMismatch for an input of another width than the first.
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
