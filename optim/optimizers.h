// The optimizers. Definitions and defaults are those of Keras 3 (keras.io/api/optimizers); the formulas stand
// in ops/optimizer_updates.h, and named options give PyTorch's instead.
//
//   auto optimizer = optim::Adam({.learning_rate = 1e-3});
//   optimizer.minimize(loss, model.parameters());
//
// Decays (momentum, beta_1, beta_2, rho) outside [0, 1) or a negative epsilon throw kInvalidArgument.
#pragma once

#include "isochron/optim/optimizer.h"

namespace isochron::optim {

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  WeightDecay weight_decay = {};
  /// PyTorch's momentum: the velocity sums gradients, and the learning rate of the moment scales all of it.
  bool learning_rate_outside_velocity = false;
};
/// Stochastic gradient descent, with momentum where it is above 0.
class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options = {});
};

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  /// Added to sqrt(v) before bias correction ("epsilon hat" of Kingma and Ba, section 2).
  double epsilon = 1e-7;
  bool amsgrad = false;
  /// PyTorch's Adam: epsilon is added to the bias-corrected root. (Its default is 1e-8.)
  bool epsilon_after_correction = false;
};
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  bool amsgrad = false;
  WeightDecay weight_decay = {.rate = 0.01};
};
/// Adam with decoupled weight decay (Loshchilov and Hutter: "Decoupled Weight Decay Regularization", ICLR
/// 2019), as PyTorch defines it: epsilon is added to the bias-corrected root.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

struct RmsPropOptions {
  double learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  /// Added to v under the root.
  double epsilon = 1e-7;
  bool centered = false;
  /// PyTorch's RMSprop: sqrt(v) + epsilon. (Its defaults are learning rate 0.01, alpha = rho 0.99, 1e-8.)
  bool epsilon_outside_root = false;
  /// PyTorch's momentum, as in SgdOptions.
  bool learning_rate_outside_velocity = false;
};
class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const RmsPropOptions& options = {});
};

}  // namespace isochron::optim
