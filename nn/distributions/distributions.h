// Probability distributions with learned parameters: for variational autoencoders, policies, likelihoods.
//
// Parameters are f32 or f64 tensors of one dtype; those of one distribution broadcast to its shape, and each
// element is a distribution of its own, except for Categorical and Dirichlet, whose last axis is one. Their
// ranges aren't checked: a standard deviation of -1 gives NaN. Constructors throw kDtypeMismatch,
// kShapeMismatch.
//
// `sample(leading)` draws (leading..., shape...). Where it says "reparameterized", gradients flow through the
// draw to the parameters (Kingma and Welling 2014); elsewhere there is none. `log_prob(x)` is the logarithm
// of the density or probability of x, which broadcasts to the shape; outside the distribution's range it
// isn't defined. Sum it over the axes of one event: sum(normal.log_prob(x), {-1}). All work in captured
// functions, where each replay draws anew.
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

/// Of tanh(u), u normal: actions in (-1, 1), as in soft actor-critic (Haarnoja et al. 2018).
class TanhNormal {
 public:
  TanhNormal(Tensor mean, Tensor stddev) : normal_(std::move(mean), std::move(stddev)) {}
  struct Draw {
    Tensor action;    // tanh(u), reparameterized
    Tensor log_prob;  // of the action, exact also where tanh rounds to 1
  };
  Draw sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  /// Of actions in (-1, 1); inexact near the ends, where `sample` should give it.
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

/// A class of the last axis with the probabilities softmax(logits). Samples are i64; logits (..., C), samples
/// and entropy (...). Logits of -infinity rule classes out.
class Categorical {
 public:
  explicit Categorical(Tensor logits);
  Tensor sample(const Shape& leading = {}, random::Generator& generator = random::default_generator()) const;
  /// x: i32 or i64 of the shape of samples without `leading`. Throws kOutOfRange when it runs on another
  /// class.
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

/// Over vectors of shares, which add up to 1: concentration (..., K), x (..., K), log_prob and entropy (...).
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
