// The optimizers. Definitions and defaults are those of Keras 3 (keras.io/api/optimizers); the formulas and
// their papers stand in ops/optimizer/rules, and named options give PyTorch's instead.
//
//   auto optimizer = optim::Adam({.learning_rate = 1e-3});
//   optimizer.minimize(loss, model.parameters());
//
// All take a learning rate that is a number or a schedule (optim/schedules.h), a decoupled weight decay, and
// `step`: parameter groups, accumulation, loss scale, clipping, noise, averages (optim/step_options.h).
//
// Decays (momentum, beta_1, beta_2, rho) outside [0, 1) or a negative epsilon throw kInvalidArgument, and so
// do options outside the range that their comment names.
#pragma once

#include <array>

#include "isochron/optim/optimizer.h"

namespace isochron::optim {

struct SgdOptions {
  Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  WeightDecay weight_decay = {};
  /// PyTorch's momentum: the velocity sums gradients, and the learning rate of the moment scales all of it.
  bool learning_rate_outside_velocity = false;
  StepOptions step = {};
};
/// Stochastic gradient descent, with momentum where it is above 0. States: none, or one.
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
  /// PyTorch's Adam: epsilon is added to the bias-corrected root. (Its default is 1e-8.)
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
  /// PyTorch's RMSprop: sqrt(v) + epsilon. (Its defaults are learning rate 0.01, alpha = rho 0.99, 1e-8.)
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
  /// Where the sum of squares starts; >= 0.
  double initial_square_sum = 0.1;
  double epsilon = 1e-7;
  /// PyTorch's Adagrad: sqrt(v) + epsilon. (Its defaults are learning rate 0.01, sum from 0, 1e-10.)
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
  /// PyTorch's Adamax: epsilon is added to the gradient before it enters the norm. (Its defaults are learning
  /// rate 0.002 and 1e-8.)
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
  /// 1e-8.
  double momentum_decay = 1;
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: two.
class Nadam : public Optimizer {
 public:
  explicit Nadam(const NadamOptions& options = {});
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

struct AdafactorOptions {
  /// At most; 1 / sqrt(step) where that is less.
  Schedule learning_rate = 1e-3;
  double beta_2_decay = -0.8;  // <= 0
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;  // > 0
  WeightDecay weight_decay = {};
  StepOptions step = {};
};
/// States: of an R x C matrix R + C numbers, of a vector as many as it has.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const AdafactorOptions& options = {});
};

struct LambOptions {
  Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  /// Taken before the update, as Keras does; in You et al. it enters the move whose norm is taken.
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
  /// Of the polynomial a x + b x^3 + c x^5 that each iteration applies to the singular values.
  std::array<double, 3> coefficients = {3.4445, -4.775, 2.0315};
  int64_t iterations = 5;  // 0 to 99
  double epsilon = 1e-7;
  /// Moves 0.2 sqrt(max(rows, columns)) times the matrix, as large as Adam's moves are, instead of
  /// sqrt(max(1, columns / rows)) times.
  bool match_rms_adamw = false;
  WeightDecay weight_decay = {.rate = 0.1};
  StepOptions step = {};
};
/// Muon, as PyTorch defines it, but in f32 or f64 throughout: momentum whose matrix is brought near a
/// semi-orthogonal one. For parameters of two axes and more, as matrices of the last axis (outputs) and all
/// others; `apply` throws kShapeMismatch for vectors, which another optimizer takes (biases, and by custom
/// embeddings and the last layer). States: one.
class Muon : public Optimizer {
 public:
  explicit Muon(const MuonOptions& options = {});
};

}  // namespace isochron::optim
