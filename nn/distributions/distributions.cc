#include "isochron/nn/distributions/distributions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/random/sampling.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::distributions {
namespace {

const double kLogTwoPi = std::log(2 * std::numbers::pi);

void require_parameter(const Tensor& x, std::string_view where) {
  require(x.defined(), ErrorCode::kInvalidArgument, where, "a parameter is undefined");
  require(x.dtype() == DType::kF32 || x.dtype() == DType::kF64, ErrorCode::kDtypeMismatch, where,
          "parameters must be f32 or f64, got {}", x.spec().str());
}

void require_parameters(const Tensor& a, const Tensor& b, std::string_view where) {
  require_parameter(a, where);
  require_parameter(b, where);
  require(a.dtype() == b.dtype(), ErrorCode::kDtypeMismatch, where, "{} and {} differ; cast one",
          a.spec().str(), b.spec().str());
  broadcast_shapes(a.shape(), b.shape(), where);
}

void require_classes(const Tensor& x, std::string_view where) {
  require_parameter(x, where);
  require(x.rank() >= 1 && x.extent(-1) >= 1, ErrorCode::kShapeMismatch, where,
          "expected (..., C) with C >= 1, got {}", x.spec().str());
}

Shape with_leading(const Shape& leading, const Shape& shape) {
  Dims dims = leading;
  for (const int64_t extent : shape) dims.push_back(extent);
  return Shape(dims);
}

/// Uniform in (0, 1], so that the logarithm is finite.
Tensor positive_uniform(const Shape& shape, DType dtype, random::Generator& generator) {
  return 1.0 - random_uniform(shape, 0, 1, dtype, generator);
}

/// log(1 - tanh(u)^2), computed without 1 - tanh(u)^2, which has no correct digits if |u| is large.
Tensor log_tanh_slope(const Tensor& u) { return (std::numbers::ln2 - u - softplus(u * -2.0)) * 2.0; }

Tensor log_beta(const Tensor& a, const Tensor& b) { return lgamma(a) + lgamma(b) - lgamma(a + b); }

/// x log y, and 0 where both are 0.
Tensor times_log(const Tensor& x, const Tensor& y) {
  const Tensor none = logical_and(equal(x, 0), equal(y, 0));
  return where(none, 0, x * log(where(none, 1, y)));
}

}  // namespace

Normal::Normal(Tensor mean, Tensor stddev) : mean_(std::move(mean)), stddev_(std::move(stddev)) {
  require_parameters(mean_, stddev_, "Normal");
}
Tensor Normal::sample(const Shape& leading, random::Generator& generator) const {
  const Shape shape = with_leading(leading, broadcast_shapes(mean_.shape(), stddev_.shape(), "Normal"));
  return mean_ + stddev_ * random_normal(shape, 0, 1, mean_.dtype(), generator);
}
Tensor Normal::log_prob(const Tensor& x) const {
  const ErrorScope scope("Normal::log_prob");
  return square((x - mean_) / stddev_) * -0.5 - log(stddev_) - 0.5 * kLogTwoPi;
}
Tensor Normal::cdf(const Tensor& x) const {
  const ErrorScope scope("Normal::cdf");
  return (erf((x - mean_) / (stddev_ * std::numbers::sqrt2)) + 1.0) * 0.5;
}
Tensor Normal::entropy() const {
  return broadcast_to(log(stddev_) + 0.5 * (1 + kLogTwoPi),
                      broadcast_shapes(mean_.shape(), stddev_.shape(), "Normal"));
}

TanhNormal::Draw TanhNormal::sample(const Shape& leading, random::Generator& generator) const {
  const Tensor u = normal_.sample(leading, generator);
  return {tanh(u), normal_.log_prob(u) - log_tanh_slope(u)};
}
Tensor TanhNormal::log_prob(const Tensor& action) const {
  const ErrorScope scope("TanhNormal::log_prob");
  const Tensor u = atanh(action);
  return normal_.log_prob(u) - log_tanh_slope(u);
}

Laplace::Laplace(Tensor mean, Tensor scale) : mean_(std::move(mean)), scale_(std::move(scale)) {
  require_parameters(mean_, scale_, "Laplace");
}
Tensor Laplace::sample(const Shape& leading, random::Generator& generator) const {
  const Shape shape = with_leading(leading, broadcast_shapes(mean_.shape(), scale_.shape(), "Laplace"));
  const Tensor magnitude = -log(positive_uniform(shape, mean_.dtype(), generator));
  return mean_ + scale_ * where(isochron::bernoulli(shape, 0.5, generator), magnitude, -magnitude);
}
Tensor Laplace::log_prob(const Tensor& x) const {
  const ErrorScope scope("Laplace::log_prob");
  return -(abs(x - mean_) / scale_) - log(scale_ * 2.0);
}
Tensor Laplace::entropy() const {
  return broadcast_to(log(scale_ * 2.0) + 1.0, broadcast_shapes(mean_.shape(), scale_.shape(), "Laplace"));
}

Exponential::Exponential(Tensor rate) : rate_(std::move(rate)) { require_parameter(rate_, "Exponential"); }
Tensor Exponential::sample(const Shape& leading, random::Generator& generator) const {
  return -log(positive_uniform(with_leading(leading, rate_.shape()), rate_.dtype(), generator)) / rate_;
}
Tensor Exponential::log_prob(const Tensor& x) const {
  const ErrorScope scope("Exponential::log_prob");
  return log(rate_) - rate_ * x;
}
Tensor Exponential::entropy() const { return 1.0 - log(rate_); }

Bernoulli::Bernoulli(Tensor logits) : logits_(std::move(logits)) { require_parameter(logits_, "Bernoulli"); }
Tensor Bernoulli::sample(const Shape& leading, random::Generator& generator) const {
  const Shape shape = with_leading(leading, logits_.shape());
  const Tensor drawn = random_uniform(shape, 0, 1, logits_.dtype(), generator);
  return cast(less(drawn, stop_gradient(sigmoid(logits_))), logits_.dtype());
}
Tensor Bernoulli::log_prob(const Tensor& x) const {
  const ErrorScope scope("Bernoulli::log_prob");
  return x * logits_ - softplus(logits_);
}
Tensor Bernoulli::entropy() const { return softplus(logits_) - sigmoid(logits_) * logits_; }

Categorical::Categorical(Tensor logits) : logits_(std::move(logits)) {
  require_classes(logits_, "Categorical");
}
Tensor Categorical::sample(const Shape& leading, random::Generator& generator) const {
  return random_categorical(broadcast_to(stop_gradient(logits_), with_leading(leading, logits_.shape())),
                            generator);
}
Tensor Categorical::log_prob(const Tensor& x) const {
  const ErrorScope scope("Categorical::log_prob");
  return -sparse_softmax_cross_entropy(logits_, x);
}
Tensor Categorical::entropy() const {
  const Tensor log_p = log_softmax(logits_);
  const Tensor never = equal(logits_, -std::numeric_limits<double>::infinity());
  return -sum(exp(log_p) * where(never, 0, log_p), {-1});
}

Gamma::Gamma(Tensor shape, Tensor rate) : shape_(std::move(shape)), rate_(std::move(rate)) {
  require_parameters(shape_, rate_, "Gamma");
}
Tensor Gamma::log_prob(const Tensor& x) const {
  const ErrorScope scope("Gamma::log_prob");
  return shape_ * log(rate_) + (shape_ - 1.0) * log(x) - rate_ * x - lgamma(shape_);
}
Tensor Gamma::entropy() const {
  return shape_ - log(rate_) + lgamma(shape_) + (1.0 - shape_) * digamma(shape_);
}

Beta::Beta(Tensor a, Tensor b) : a_(std::move(a)), b_(std::move(b)) { require_parameters(a_, b_, "Beta"); }
Tensor Beta::log_prob(const Tensor& x) const {
  const ErrorScope scope("Beta::log_prob");
  return (a_ - 1.0) * log(x) + (b_ - 1.0) * log1p(-x) - log_beta(a_, b_);
}
Tensor Beta::entropy() const {
  return log_beta(a_, b_) - (a_ - 1.0) * digamma(a_) - (b_ - 1.0) * digamma(b_) +
         (a_ + b_ - 2.0) * digamma(a_ + b_);
}

Dirichlet::Dirichlet(Tensor concentration) : concentration_(std::move(concentration)) {
  require_classes(concentration_, "Dirichlet");
}
Tensor Dirichlet::log_prob(const Tensor& x) const {
  const ErrorScope scope("Dirichlet::log_prob");
  return sum(times_log(concentration_ - 1.0, x), {-1}) + lgamma(sum(concentration_, {-1})) -
         sum(lgamma(concentration_), {-1});
}
Tensor Dirichlet::entropy() const {
  const Tensor total = sum(concentration_, {-1});
  const double classes = static_cast<double>(concentration_.extent(-1));
  return sum(lgamma(concentration_), {-1}) - lgamma(total) + (total - classes) * digamma(total) -
         sum((concentration_ - 1.0) * digamma(concentration_), {-1});
}

Poisson::Poisson(Tensor rate) : rate_(std::move(rate)) { require_parameter(rate_, "Poisson"); }
Tensor Poisson::log_prob(const Tensor& x) const {
  const ErrorScope scope("Poisson::log_prob");
  return times_log(x, rate_) - rate_ - lgamma(x + 1.0);
}

Tensor kl_divergence(const Normal& p, const Normal& q) {
  const ErrorScope scope("kl_divergence");
  const Tensor ratio = square(p.stddev() / q.stddev());
  return (ratio + square((p.mean() - q.mean()) / q.stddev()) - 1.0 - log(ratio)) * 0.5;
}
Tensor kl_divergence(const Laplace& p, const Laplace& q) {
  const ErrorScope scope("kl_divergence");
  const Tensor ratio = p.scale() / q.scale(), far = abs(p.mean() - q.mean());
  return far / q.scale() + ratio * exp(-(far / p.scale())) - log(ratio) - 1.0;
}
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  const ErrorScope scope("kl_divergence");
  return softplus(q.logits()) - softplus(p.logits()) + sigmoid(p.logits()) * (p.logits() - q.logits());
}
Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  const ErrorScope scope("kl_divergence");
  const Tensor log_p = log_softmax(p.logits());
  const Tensor never = equal(p.logits(), -std::numeric_limits<double>::infinity());
  return sum(exp(log_p) * where(never, 0, log_p - log_softmax(q.logits())), {-1});
}
Tensor kl_divergence(const Gamma& p, const Gamma& q) {
  const ErrorScope scope("kl_divergence");
  return (p.shape() - q.shape()) * digamma(p.shape()) - lgamma(p.shape()) + lgamma(q.shape()) +
         q.shape() * (log(p.rate()) - log(q.rate())) + p.shape() * (q.rate() / p.rate() - 1.0);
}

}  // namespace isochron::distributions
