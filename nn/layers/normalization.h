// Normalization layers. Their gains start at 1 and their shifts at 0; they have Keras's names, gamma and
// beta.
#pragma once

#include <memory>

#include "isochron/comm/group/group.h"
#include "isochron/nn/module/module.h"
#include "isochron/ops/normalization/normalization.h"

namespace isochron::nn {

struct BatchNormOptions {
  /// The share that the moving averages keep at each training step. PyTorch's momentum is 1 minus this
  /// number.
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool scale = true;
  bool center = true;
  /// If true, the moving variance averages n / (n - 1) times the batch's variance, as in PyTorch. By default
  /// it averages the batch's variance itself, as in Keras.
  bool unbiased_moving_variance = false;
  /// In training, use the moments of all ranks' batches together, weighted by their numbers of rows, instead
  /// of this rank's own moments (ops/normalization/rank_batch_norm.h). This takes one exchange in the forward
  /// pass and one in the backward pass. All ranks then have the same moving averages. With a single rank this
  /// option changes nothing.
  bool synchronized = false;
  /// The group of ranks to synchronize; null: comm::world() at the time the layer is made.
  std::shared_ptr<comm::Group> group = nullptr;
};
/// Normalizes each channel of a batch to mean 0 and variance 1, times gamma, plus beta (Ioffe and Szegedy:
/// "Batch Normalization", ICML 2015). Training uses the batch's own moments and updates the moving averages
/// with them. Inference uses the moving averages. A frozen layer (set_trainable(false)) uses them in training
/// too and doesn't update them, as in Keras. x: (N, ..., C). Rows are not independent: don't pad a batch.
///
/// With several ranks, each rank normalizes by the moments of its own batch and updates its own moving
/// averages. Trainer::fit replaces these by their mean over the ranks (train/loop/trainer.h). If
/// synchronized, all ranks must run the forward pass equally often, so a hand-written loop must give each
/// rank the same number of batches. Inference and frozen layers exchange nothing. The backward pass of a
/// synchronized layer computes the gradient of the sum of all ranks' losses. Optimizer::minimize therefore
/// differentiates losses summed over rows. If you call Optimizer::apply and batches differ in their number of
/// rows, also differentiate such a sum, and divide the gradients by this rank's rows. Synchronized layers run
/// on the CPU only, in f32 and f64. 16-bit floats are computed in f32, the dtype of their averages.
class BatchNorm : public Module {
 public:
  /// Throws kInvalidArgument unless momentum lies in [0, 1] and epsilon >= 0.
  explicit BatchNorm(BatchNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "batch_norm"; }
  const BatchNormOptions& options() const { return options_; }

 private:
  void build_parameters(const Tensor& x);
  void move_averages(const Moments& moments, double unbiased) const;
  BatchNormOptions options_;
  Variable gamma_, beta_, moving_mean_, moving_variance_;
};

struct NormOptions {
  double epsilon = 1e-5;
  bool scale = true;
  bool center = true;
};
/// Normalizes each row of the last axis to mean 0 and variance 1 (ops/normalization/normalization.h).
class LayerNorm : public Module {
 public:
  explicit LayerNorm(NormOptions options = {}) : options_(options) {}
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("gamma", gamma_)("beta", beta_); }
  std::string_view kind() const override { return "layer_norm"; }

 private:
  NormOptions options_;
  Variable gamma_, beta_;
};

/// Divides each row by the root of its mean square. `center` is ignored.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(NormOptions options = {}) : options_(options) {}
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("gamma", gamma_); }
  std::string_view kind() const override { return "rms_norm"; }

 private:
  NormOptions options_;
  Variable gamma_;
};

/// Normalizes groups of channels of each sample to mean 0 and variance 1. x: (N, ..., C).
class GroupNorm : public Module {
 public:
  /// Throws kInvalidArgument unless groups >= 1, and at the first call unless they divide the channels.
  explicit GroupNorm(int64_t groups, NormOptions options = {});
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("gamma", gamma_)("beta", beta_); }
  std::string_view kind() const override { return "group_norm"; }

 private:
  int64_t groups_;
  NormOptions options_;
  Variable gamma_, beta_;
};

struct InstanceNormOptions {
  double epsilon = 1e-5;
  /// Whether the layer has gamma and beta, with one number per channel each. By default, as in PyTorch, it
  /// has neither and so no parameters.
  bool affine = false;
};
/// Normalizes each channel of each sample to mean 0 and variance 1 over its positions (Ulyanov, Vedaldi,
/// Lempitsky: "Instance Normalization", 2016), both in training and in inference. x: (N, spatial..., C).
class InstanceNorm : public Module {
 public:
  /// Throws kInvalidArgument unless epsilon >= 0. A call throws kShapeMismatch if x has fewer than 3 axes.
  explicit InstanceNorm(InstanceNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("gamma", gamma_)("beta", beta_); }
  std::string_view kind() const override { return "instance_norm"; }

 private:
  InstanceNormOptions options_;
  Variable gamma_, beta_;
};

}  // namespace isochron::nn
