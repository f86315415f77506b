// The optimizers. Definitions and defaults are those of Keras 3 (keras.io/api/optimizers). The formulas and
// their papers are in ops/optimizer/rules; named options select PyTorch's formulas instead.
//
//   auto optimizer = optim::Adam({.learning_rate = 1e-3});
//   optimizer.minimize(loss, model.parameters());
//
// All take a learning rate that is a number or a schedule (optim/schedules.h), a decoupled weight decay, and
// `step`: parameter groups, accumulation, loss scale, clipping, noise, averages (optim/step_options.h).
//
// Decays (momentum, beta_1, beta_2, rho) outside [0, 1) and a negative epsilon throw kInvalidArgument, as do
// options outside the range that their comment gives.
#pragma once

#include <array>

#include "isochron/optim/optimizer.h"

namespace isochron::optim {

struct SgdOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  WeightDecay weight_decay = {};
  /// PyTorch's momentum: the velocity sums gradients, and the current learning rate scales the whole
  /// velocity.
  bool learning_rate_outside_velocity = false;
  StepOptions step = {};
};
/// Stochastic gradient descent, with momentum if that is above 0. States: none, or one with momentum.
class Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options = {});
};

struct AdamOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  /// Added to sqrt(v) before bias correction ("epsilon hat" of Kingma and Ba, section 2).
  double epsilon = 1e-7;
  bool amsgrad = false;
  /// PyTorch's Adam: epsilon is added to the bias-corrected root. (Its default epsilon is 1e-8.)
  bool epsilon_after_correction = false;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: two, with amsgrad three.
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

struct AdamWOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  bool amsgrad = false;
  WeightDecay weight_decay = {.rate = 0.01};
  StepOptions step = {};
};
/// Adam with decoupled weight decay (Loshchilov and Hutter: "Decoupled Weight Decay Regularization", ICLR
/// 2019), as PyTorch defines it: epsilon is added to the bias-corrected root.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
};

struct RmsPropOptions {
  Schedule learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  /// Added to v under the root.
  double epsilon = 1e-7;
  bool centered = false;
  /// PyTorch's RMSprop: sqrt(v) + epsilon. (Its defaults: learning rate 0.01, alpha (rho here) 0.99, epsilon
  /// 1e-8.)
  bool epsilon_outside_root = false;
  /// PyTorch's momentum, as in SgdOptions.
  bool learning_rate_outside_velocity = false;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: one, one more if centered, one more with momentum.
class RmsProp : public Optimizer {
 public:
  explicit RmsProp(const RmsPropOptions& options = {});
};

struct AdagradOptions {
  Schedule learning_rate = 1e-3;
  /// The initial value of the sum of squares; >= 0.
  double initial_square_sum = 0.1;
  double epsilon = 1e-7;
  /// PyTorch's Adagrad: sqrt(v) + epsilon. (Its defaults: learning rate 0.01, initial sum 0, epsilon 1e-10.)
  bool epsilon_outside_root = false;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: one.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
};

struct AdadeltaOptions {
  /// 1 in Zeiler's paper and in PyTorch.
  Schedule learning_rate = 1e-3;
  double rho = 0.95;
  double epsilon = 1e-7;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: two.
class Adadelta : public Optimizer {
 public:
  explicit Adadelta(const AdadeltaOptions& options = {});
};

struct AdamaxOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  /// PyTorch's Adamax: epsilon is added to the gradient before it enters the norm. (Its defaults: learning
  /// rate 0.002, epsilon 1e-8.)
  bool epsilon_within_norm = false;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: two.
class Adamax : public Optimizer {
 public:
  explicit Adamax(const AdamaxOptions& options = {});
};

struct NadamOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  /// How fast the momentum's schedule settles; >= 0. PyTorch's default is 0.004, with learning rate 0.002 and
  /// epsilon 1e-8.
  double momentum_decay = 1;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: two.
class Nadam : public Optimizer {
 public:
  explicit Nadam(const NadamOptions& options = {});
};

struct RAdamOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-8;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// Rectified Adam, as PyTorch defines it (Liu et al.: "On the Variance of the Adaptive Learning Rate and
/// Beyond", ICLR 2020). The learning rate grows as the estimate of the second moment becomes reliable, so
/// that no warm-up is needed. Before that (with the default beta_2, in the first five steps) it uses momentum
/// alone. States: two.
class RAdam : public Optimizer {
 public:
  explicit RAdam(const RAdamOptions& options = {});
};

struct LionOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: one.
class Lion : public Optimizer {
 public:
  explicit Lion(const LionOptions& options = {});
};

struct RpropOptions {
  /// Every element's first step size. Later steps don't read it: neither a schedule nor `set_learning_rate`
  /// changes the steps of an element that has been updated once, as in PyTorch. But a learning rate of 0
  /// leaves parameters and states as they are.
  Schedule learning_rate = 0.01;
  /// An element's step size is multiplied by eta_minus if its gradient changes sign, and by eta_plus if the
  /// sign stays; 0 < eta_minus < 1 < eta_plus.
  double eta_minus = 0.5;
  double eta_plus = 1.2;
  /// The limits of step sizes; 0 < min_step <= max_step.
  double min_step = 1e-6;
  double max_step = 50;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// Resilient backpropagation, as PyTorch defines it: a step depends only on the gradient's sign, and each
/// element adapts its own step size. Use it with gradients of the whole data set, because the noise of small
/// batches flips signs. States: two.
class Rprop : public Optimizer {
 public:
  explicit Rprop(const RpropOptions& options = {});
};

struct AdafactorOptions {
  /// The upper limit of the learning rate; 1 / sqrt(step) is used if that is smaller.
  Schedule learning_rate = 1e-3;
  double beta_2_decay = -0.8;  // <= 0
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;  // > 0
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: R + C numbers for an R x C matrix, one number per element for a vector.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const AdafactorOptions& options = {});
};

struct LambOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  /// Applied before the update, as in Keras; in You et al., weight decay is part of the update whose norm is
  /// used.
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: two.
class Lamb : public Optimizer {
 public:
  explicit Lamb(const LambOptions& options = {});
};

struct MuonOptions {
  Schedule learning_rate = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  /// The coefficients of the polynomial a x + b x^3 + c x^5 that each iteration applies to the singular
  /// values.
  std::array<double, 3> coefficients = {3.4445, -4.775, 2.0315};
  int64_t iterations = 5;  // 0 to 99
  double epsilon = 1e-7;
  /// Scales the update by 0.2 sqrt(max(rows, columns)), so that it is as large as Adam's updates, instead of
  /// by sqrt(max(1, columns / rows)).
  bool match_rms_adamw = false;
  WeightDecay weight_decay = {.rate = 0.1};
  StepOptions step = {};
};
/// Muon, as PyTorch defines it, but in f32 or f64 throughout: the momentum, as a matrix, is made
/// approximately semi-orthogonal. It is for parameters with two or more axes, treated as matrices: the last
/// axis (outputs) by all other axes merged. `apply` throws kShapeMismatch for vectors; use another optimizer
/// for these (biases, and usually embeddings and the last layer). States: one.
class Muon : public Optimizer {
 public:
  explicit Muon(const MuonOptions& options = {});
};

}  // namespace isochron::optim
