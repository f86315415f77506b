// The rows by which optimizers change parameters. One call updates all parameters of a model, and in place
// when captured; optim/ holds the classes that people use.
//
//   inputs   gradient factor f64 (), learning rate f64 (), steps done i64 (), p1..pn,
//            k lists of n states, g1..gn
//   outputs  steps done + 1, new p1..pn, new states
//
// All of a parameter, its states and its gradient have one dtype, f32 or f64; they share a shape unless said
// otherwise. Output o may be written over input o + 2. Every gradient is first multiplied by the factor: what
// is left to do of clipping, unscaling and averaging costs no pass of its own. With w parameter, g gradient,
// r learning rate, t steps counted from 1, states starting at 0, the definitions are Keras 3's
// (keras.io/api/optimizers):
//
//   sgd_update        k = 0           w -= r g
//   with momentum     k = 1 (m)       m = momentum m + r g;  w -= m, or with nesterov w -= momentum m + r g
//   adam_update       k = 2 (m, v)    m += (g - m)(1 - beta_1);  v += (g g - v)(1 - beta_2)
//                                     w -= r sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + epsilon)
//   with amsgrad      k = 3 (.., h)   h = max(h, v) takes v's place in the last line
//   rmsprop_update    k = 1 (v)       v = rho v + (1 - rho) g g;  w -= r g / sqrt(v + epsilon)
//   with centered     adds a          a = rho a + (1 - rho) g;  v - a a (at least 0) under the root
//   with momentum     adds m          m = momentum m + r g / sqrt(...);  w -= m
//   adagrad_update    k = 1 (v)       v += g g;  w -= r g / sqrt(v + epsilon)
//   adadelta_update   k = 2 (v, d)    v = rho v + (1 - rho) g g;  x = g sqrt(d + epsilon) / sqrt(v + epsilon)
//                                     d = rho d + (1 - rho) x x;  w -= r x
//   adamax_update     k = 2 (m, u)    m as Adam's;  u = max(beta_2 u, |g|)
//                                     w -= r / (1 - beta_1^t) * m / (u + epsilon)
//   nadam_update      k = 2 (m, v)    as Adam's;  C_t = c_1 ... c_t
//                                     c_t = beta_1 (1 - 0.96^(t momentum_decay) / 2)
//                                     w -= r (c_{t+1} m / (1 - C_{t+1}) + (1 - c_t) g / (1 - C_t))
//                                          / (sqrt(v / (1 - beta_2^t)) + epsilon)
//   lion_update       k = 1 (m)       w -= r sign(beta_1 m + (1 - beta_1) g);  m = beta_2 m + (1 - beta_2) g
//   lamb_update       k = 2 (m, v)    as Adam's
//                                     x = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon)
//                                     w -= r x |w| / |x|, without the fraction where a norm is 0
//   adafactor_update  k = 2 (a, c)    b = 1 - t^beta_2_decay;  q = g g + epsilon_1
//                                     for w (..., R, C), with c (..., C):
//                                     a = b a + (1 - b) mean of q over the last axis, (..., R)
//                                     c = b c + (1 - b) mean of q over the last but one
//                                     x = g / sqrt(a / (mean of a over R) * c)
//                                     w -= min(r, 1 / sqrt(t)) max(epsilon_2, rms w) x
//                                          / max(1, rms x / clip_threshold)
//                     w of rank < 2:  a = b a + (1 - b) q;  x = g / sqrt(a);  c is empty, (0)
//
// (Kingma and Ba: "Adam", ICLR 2015, also for Adamax; Reddi et al.: "On the Convergence of Adam and Beyond",
// ICLR 2018, for amsgrad; Tieleman and Hinton: lecture 6.5, 2012, for RMSprop; Duchi, Hazan, Singer, JMLR
// 2011, for Adagrad; Zeiler 2012 for Adadelta; Dozat, ICLR workshop 2016, for Nadam; Chen et al.: "Symbolic
// Discovery of Optimization Algorithms", 2023, for Lion; You et al., ICLR 2020, for LAMB; Shazeer and Stern,
// ICML 2018, for Adafactor.) Four attributes turn these into PyTorch's:
//
//   learning_rate_outside_velocity  m = momentum m + g [/ sqrt(...)];  w -= r m [r (g + momentum m)]
//   epsilon_after_correction        w -= r / (1 - beta_1^t) * m / (sqrt(v) / sqrt(1 - beta_2^t) + epsilon)
//   epsilon_outside_root            w -= r g / (sqrt(v) + epsilon)
//   epsilon_within_norm             u = max(beta_2 u, |g| + epsilon);  w -= r / (1 - beta_1^t) * m / u
//
// Two lists, one number a parameter: parameter i learns at the rate r f, f from `rate_factors` (1 without
// that list), and any rule begins with w -= r f d w for the decoupled weight decay d from `weight_decays`
// (Loshchilov and Hutter: "Decoupled Weight Decay Regularization", ICLR 2019).
#pragma once

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

/// Where a call's tensors stand among its inputs.
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

/// Is `op` one of these rows?
bool is_optimizer_update(const graph::OpDef& op);
/// How many states a parameter has under the row `op` with `attributes`.
size_t update_state_count(const graph::OpDef& op, const graph::Attributes& attributes);
/// The shape of state `k` of a parameter of shape `parameter`.
Shape update_state_shape(const graph::OpDef& op, const Shape& parameter, size_t k);
/// Throws kInvalidArgument unless every decay lies in [0, 1), every epsilon is >= 0, and nesterov has a
/// momentum.
void check_update_attributes(const graph::OpDef& op, const graph::Attributes& attributes);

}  // namespace isochron::ops
