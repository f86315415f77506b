// Probability distributions with learned parameters: for variational autoencoders, policies, likelihoods.
//
// A distribution's parameters are f32 or f64 tensors of one dtype, which broadcast to the distribution's
// shape. Each element is a separate distribution; for Categorical and Dirichlet, each row of the last axis is
// one. Ranges of parameters aren't checked: a standard deviation of -1 gives NaN. Constructors throw
// kDtypeMismatch, kShapeMismatch.
//
// `sample(leading)` draws a tensor of shape (leading..., shape...). If a class says that its samples are
// reparameterized, gradients flow through them to the parameters (Kingma and Welling 2014); other samples
// have no gradient. `log_prob(x)` is the logarithm of the density or probability of x, which broadcasts to
// the distribution's shape; outside the distribution's range the result is undefined. For an event with
// several elements, sum over its axes: sum(normal.log_prob(x), {-1}). All distributions work in captured
// functions; each replay draws new samples.
#pragma once

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/random/random.h"

namespace isochron::distributions {

/// Normal(mean, stddev). Samples are reparameterized.
class Normal {
 public:
  Normal(Tensor mean, Tensor stddev);
  Tensor sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  Tensor log_prob(const Tensor& x) const;
  /// The probability of a number below x.
  Tensor cdf(const Tensor& x) const;
  Tensor entropy() const;
  const Tensor& mean() const { return mean_; }
  const Tensor& stddev() const { return stddev_; }

 private:
  Tensor mean_, stddev_;
};

/// The distribution of tanh(u) for a normal u: actions in (-1, 1), as in soft actor-critic (Haarnoja et al.
/// 2018).
class TanhNormal {
 public:
  TanhNormal(Tensor mean, Tensor stddev) : normal_(std::move(mean), std::move(stddev)) {}
  struct Draw {
    Tensor action;    // tanh(u), reparameterized
    Tensor log_prob;  // of the action, exact even if tanh rounds to 1
  };
  Draw sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  /// The log-probability of actions in (-1, 1). It is inexact near the ends; use Draw::log_prob for samples.
  Tensor log_prob(const Tensor& action) const;

 private:
  Normal normal_;
};

/// Density e^(-|x - mean| / scale) / (2 scale). Samples are reparameterized.
class Laplace {
 public:
  Laplace(Tensor mean, Tensor scale);
  Tensor sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;
  const Tensor& mean() const { return mean_; }
  const Tensor& scale() const { return scale_; }

 private:
  Tensor mean_, scale_;
};

/// Density rate e^(-rate x), x >= 0. Samples are reparameterized.
class Exponential {
 public:
  explicit Exponential(Tensor rate);
  Tensor sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;

 private:
  Tensor rate_;
};

/// 1 with probability sigmoid(logits), else 0, both in the dtype of the logits.
class Bernoulli {
 public:
  explicit Bernoulli(Tensor logits);
  Tensor sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;
  const Tensor& logits() const { return logits_; }

 private:
  Tensor logits_;
};

/// One of C classes, with the probabilities softmax(logits) over the last axis. logits: (..., C); samples
/// (i64) and entropy: (...). A logit of -infinity excludes its class.
class Categorical {
 public:
  explicit Categorical(Tensor logits);
  Tensor sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  /// x: i32 or i64, with the shape of samples without `leading`. Throws kOutOfRange, when it runs, for a
  /// class that doesn't exist.
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;
  const Tensor& logits() const { return logits_; }

 private:
  Tensor logits_;
};

/// Density rate^shape x^(shape - 1) e^(-rate x) / Gamma(shape), x > 0.
class Gamma {
 public:
  Gamma(Tensor shape, Tensor rate);
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;
  const Tensor& shape() const { return shape_; }
  const Tensor& rate() const { return rate_; }

 private:
  Tensor shape_, rate_;
};

/// Density x^(a - 1) (1 - x)^(b - 1) / B(a, b), 0 < x < 1.
class Beta {
 public:
  Beta(Tensor a, Tensor b);
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;

 private:
  Tensor a_, b_;
};

/// A distribution over vectors of shares that add up to 1. concentration, x: (..., K); log_prob and entropy:
/// (...).
class Dirichlet {
 public:
  explicit Dirichlet(Tensor concentration);
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;

 private:
  Tensor concentration_;
};

/// Probability rate^x e^(-rate) / x! of counts x = 0, 1, ... in the dtype of the rate.
class Poisson {
 public:
  explicit Poisson(Tensor rate);
  Tensor log_prob(const Tensor& x) const;

 private:
  Tensor rate_;
};

/// The Kullback-Leibler divergence of q from p, E_p[log p - log q], in closed form.
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const Laplace& p, const Laplace& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);
Tensor kl_divergence(const Gamma& p, const Gamma& q);

}  // namespace isochron::distributions
