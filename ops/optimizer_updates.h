// The rows by which optimizers change parameters: "sgd_update", "adam_update", "rmsprop_update". One call
// updates all parameters of a model, and in place when captured; optim/ holds the classes that people use.
//
//   inputs   learning rate f64 (), steps done i64 (), p1..pn, k lists of n states, g1..gn
//   outputs  steps done + 1, new p1..pn, new states
//
// Parameter, its states and its gradient share a shape; all have one dtype, f32 or f64. Output o may be
// written over input o + 1. The definitions are Keras 3's (keras.io/api/optimizers); with w parameter, g
// gradient, r learning rate, t steps counted from 1, states starting at 0:
//
//   sgd_update      k = 0           w -= r g
//   with momentum   k = 1 (m)       m = momentum m + r g;  w -= m, or with nesterov w -= momentum m + r g
//   adam_update     k = 2 (m, v)    m += (g - m)(1 - beta_1);  v += (g g - v)(1 - beta_2)
//                                   w -= r sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)
//   with amsgrad    k = 3 (.., h)   h = max(h, v) takes v's place in the last line
//   rmsprop_update  k = 1 (v)       v = rho v + (1 - rho) g g;  w -= r g / sqrt(v + epsilon)
//   with centered   adds a          a = rho a + (1 - rho) g;  v - a a (at least 0) under the root
//   with momentum   adds m          m = momentum m + r g / sqrt(...);  w -= m
//
// (Kingma and Ba: "Adam", ICLR 2015; Reddi et al.: "On the Convergence of Adam and Beyond", ICLR 2018, for
// amsgrad; Tieleman and Hinton: lecture 6.5, 2012, for RMSprop.) Three attributes turn these into PyTorch's:
//
//   learning_rate_outside_velocity  m = momentum m + g [/ sqrt(...)];  w -= r m [r (g + momentum m)]
//   epsilon_after_correction        w -= r / (1 - beta_1^t) * m / (sqrt(v) / sqrt(1 - beta_2^t) + epsilon)
//   epsilon_outside_root            w -= r g / (sqrt(v) + epsilon)
//
// With `weight_decay` d any rule begins with w -= r d w (decoupled: Loshchilov and Hutter: "Decoupled Weight
// Decay Regularization", ICLR 2019), for the parameters whose character in `undecayed` isn't '1'.
#pragma once

#include "isochron/graph/op.h"

namespace isochron::ops {

/// Where a call's tensors stand among its inputs.
struct UpdateLayout {
  size_t parameters = 0;  // n
  size_t states = 0;      // k
  static constexpr size_t kLearningRate = 0;
  static constexpr size_t kStep = 1;
  size_t parameter(size_t i) const { return 2 + i; }
  size_t state(size_t k, size_t i) const { return 2 + (1 + k) * parameters + i; }
  size_t gradient(size_t i) const { return 2 + (1 + states) * parameters + i; }
};

/// How many states a parameter has under the row `op` with `attributes`.
size_t update_state_count(const graph::OpDef& op, const graph::Attributes& attributes);
/// Throws kInvalidArgument unless every decay lies in [0, 1), every epsilon is >= 0, and nesterov has a
/// momentum.
void check_update_attributes(const graph::OpDef& op, const graph::Attributes& attributes);

}  // namespace isochron::ops
