// The ops by which optimizers update parameters. One call updates all parameters of a model, in place if it
// is captured. The classes for users are in optim/.
//
//   inputs   gradient factor f64 (), learning rate f64 (), steps done i64 (), p1..pn,
//            k lists of n states, g1..gn
//   outputs  steps done + 1, new p1..pn, new states
//
// A parameter, its states and its gradient have the same dtype, f32 or f64, and, unless stated otherwise, the
// same shape. Output o may be written over input o + 2. Every gradient is first multiplied by the gradient
// factor, so that clipping, unscaling and averaging need no extra pass. Each rule has a file in
// ops/optimizer/rules. Its description uses w for the parameter, g for the gradient, r for the learning rate
// and t for the step, counted from 1; states start at 0. The definitions are Keras 3's
// (keras.io/api/optimizers); four attributes turn them into PyTorch's:
//
//   learning_rate_outside_velocity  m = momentum m + g [/ sqrt(...)];  w -= r m [r (g + momentum m)]
//   epsilon_after_correction        w -= r / (1 - beta_1^t) * m / (sqrt(v) / sqrt(1 - beta_2^t) + epsilon)
//   epsilon_outside_root            w -= r g / (sqrt(v) + epsilon)
//   epsilon_within_norm             u = max(beta_2 u, |g| + epsilon);  w -= r / (1 - beta_1^t) * m / u
//
// Two optional attributes are lists with one number per parameter. `rate_factors` gives a factor f: the
// parameter's learning rate is r f. `weight_decays` gives the decoupled weight decay d: every rule begins
// with w -= r f d w (Loshchilov and Hutter: "Decoupled Weight Decay Regularization", ICLR 2019).
#pragma once

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

/// The order of a call's inputs.
struct UpdateLayout {
  size_t parameters = 0;  // n
  size_t states = 0;      // k
  static constexpr size_t kGradientFactor = 0;
  static constexpr size_t kLearningRate = 1;
  static constexpr size_t kStep = 2;
  static constexpr size_t kNumbers = 3;       // inputs before the parameters
  static constexpr size_t kFirstAliased = 2;  // output o belongs to input o + this
  size_t parameter(size_t i) const { return kNumbers + i; }
  size_t state(size_t k, size_t i) const { return kNumbers + (1 + k) * parameters + i; }
  size_t gradient(size_t i) const { return kNumbers + (1 + states) * parameters + i; }
  size_t inputs() const { return gradient(parameters); }
  size_t outputs() const { return gradient(0) - kFirstAliased; }
};

/// Whether `op` is one of these ops.
bool is_optimizer_update(const graph::OpDef& op);
/// The number of states per parameter of the update `op` with `attributes`.
size_t update_state_count(const graph::OpDef& op, const graph::Attributes& attributes);
/// The shape of state `k` of a parameter of shape `parameter`.
Shape update_state_shape(const graph::OpDef& op, const Shape& parameter, size_t k);
/// Whether the results of the update `op` depend on the number of earlier updates, as a bias correction does.
bool update_reads_step(const graph::OpDef& op);
/// Throws kInvalidArgument unless every decay lies in [0, 1), every epsilon is >= 0, nesterov has a momentum,
/// and Rprop's numbers keep 0 < eta_minus < 1 < eta_plus and 0 < min_step <= max_step.
void check_update_attributes(const graph::OpDef& op, const graph::Attributes& attributes);

}  // namespace isochron::ops
