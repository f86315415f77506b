// Normalisation layers. Their gains start at 1 and their shifts at 0; both are named as Keras names them.
#pragma once

#include <memory>

#include "isochron/comm/group/group.h"
#include "isochron/nn/module/module.h"
#include "isochron/ops/normalization/normalization.h"

namespace isochron::nn {

struct BatchNormOptions {
  /// What the moving averages keep of themselves at each training step. PyTorch's momentum is 1 - this.
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool scale = true;
  bool center = true;
  /// The moving variance averages n / (n - 1) times the batch's, as PyTorch's does; by default the batch's
  /// itself, as Keras's.
  bool unbiased_moving_variance = false;
  /// In training, go by the moments of the batches of all ranks together, each counted by its rows, rather
  /// than of this rank's alone (ops/normalization/rank_batch_norm.h): an exchange in the forward pass and one
  /// in the backward pass. All ranks have the same moving averages then, and of one rank it is the same layer
  /// as without.
  bool synchronized = false;
  /// The ranks that do; null: comm::world(), as it is when the layer is made.
  std::shared_ptr<comm::Group> group = nullptr;
};
/// Each channel of a batch brought to mean 0 and variance 1, times gamma, plus beta (Ioffe and Szegedy:
/// "Batch Normalization", ICML 2015). In training by the batch's own moments, which also move the averages;
/// otherwise by the averages; a frozen one (set_trainable(false)) goes by them and leaves them also in
/// training, as Keras's. x: (N, ..., C). Rows are not independent: pad no batch.
///
/// Over ranks, each goes by the moments of its own batch and moves averages of its own, of which
/// Trainer::fit takes the mean (train/loop/trainer.h). Where they are synchronized, all ranks must run the
/// forward pass the same number of times: a loop of one's own has to give each as many batches. Inference and
/// frozen layers exchange nothing. A layer sees the gradient of the sum of all ranks' losses, which
/// Optimizer::minimize takes of losses summed over rows; where batches differ in rows, gradients for
/// Optimizer::apply must be those of such a sum too, divided by this rank's rows. Synchronized on the CPU,
/// f32 and f64; 16-bit floats go through f32, in which their averages are kept.
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
/// Rows of the last axis brought to mean 0 and variance 1 (ops/normalization/normalization.h).
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

/// Rows divided by the root of their mean square; `center` has no meaning here.
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

/// Groups of channels of each sample brought to mean 0 and variance 1. x: (N, ..., C).
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
  /// With gamma and beta, one number a channel; without, as PyTorch's by default, the layer has no
  /// parameters.
  bool affine = false;
};
/// Each channel of each sample brought to mean 0 and variance 1 over its positions (Ulyanov, Vedaldi,
/// Lempitsky: "Instance Normalization", 2016), in training and inference alike. x: (N, spatial..., C).
class InstanceNorm : public Module {
 public:
  /// Throws kInvalidArgument unless epsilon >= 0; at a call kShapeMismatch for fewer than 3 axes.
  explicit InstanceNorm(InstanceNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override { list("gamma", gamma_)("beta", beta_); }
  std::string_view kind() const override { return "instance_norm"; }

 private:
  InstanceNormOptions options_;
  Variable gamma_, beta_;
};

}  // namespace isochron::nn
