#include "isochron/nn/layers/normalization.h"

#include "isochron/comm/group/world.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/normalization/rank_batch_norm.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::nn {
namespace {

void require_channels(const Tensor& x, const Variable& like, std::string_view where, int min_rank) {
  require(is_floating(x.dtype()), ErrorCode::kDtypeMismatch, where,
          "the input must be floating, got {}; cast it", x.spec().str());
  require(x.rank() >= min_rank, ErrorCode::kShapeMismatch, where,
          "the input must have at least {} axes, got {}", min_rank, x.spec().str());
  if (!like.defined()) return;
  require(x.extent(-1) == like.shape()[0], ErrorCode::kShapeMismatch, where,
          "was built for {} channels, got {}", like.shape()[0], x.spec().str());
}

/// A parameter's present value; undefined if there is no such parameter.
Tensor value_of(const Variable& variable) { return variable.defined() ? variable.tensor() : Tensor(); }

}  // namespace

BatchNorm::BatchNorm(BatchNormOptions options) : options_(options) {
  require(options.momentum >= 0 && options.momentum <= 1 && options.epsilon >= 0, ErrorCode::kInvalidArgument,
          "batch_norm", "momentum must lie in [0, 1] and epsilon be >= 0, got {} and {}", options.momentum,
          options.epsilon);
  if (options.synchronized && !options.group) options_.group = comm::world();
}

void BatchNorm::members(Members& list) {
  list("gamma", gamma_)("beta", beta_);
  list.average("moving_mean", moving_mean_).average("moving_variance", moving_variance_);
}

void BatchNorm::build_parameters(const Tensor& x) {
  const TensorSpec spec{x.dtype(), {x.extent(-1)}};
  if (options_.scale) gamma_ = make_parameter("gamma", spec, init::ones());
  if (options_.center) beta_ = make_parameter("beta", spec, init::zeros());
  const DType averaged = is_half(x.dtype()) ? DType::kF32 : x.dtype();  // small steps get lost in 16 bits
  moving_variance_ = Variable(ones(spec.shape, averaged), "moving_variance", false);
  moving_mean_ =
      Variable(zeros(spec.shape, averaged), "moving_mean", false);  // last, so that a failed build restarts
}

Tensor BatchNorm::forward(const Tensor& x) {
  require_channels(x, moving_mean_, kind(), 2);
  if (!moving_mean_.defined()) build_parameters(x);
  if (!training() || !trainable()) {
    return normalize_channels(x, {moving_mean_, moving_variance_}, value_of(gamma_), value_of(beta_),
                              options_.epsilon);
  }
  const Tensor gamma = value_of(gamma_), beta = value_of(beta_);
  if (options_.synchronized && options_.group->size() > 1) {
    const auto [y, moments, rows] = rank_batch_norm(x, gamma, beta, options_.epsilon, options_.group);
    const Tensor unbiased = rows / maximum(rows - 1.0, 1.0);
    const Tensor& variance = moments.variance;
    move_averages(
        {moments.mean,
         options_.unbiased_moving_variance ? variance * cast(unbiased, variance.dtype()) : variance},
        1);
    return y;
  }
  const auto [y, moments] = batch_norm(x, gamma, beta, options_.epsilon);
  const double rows = static_cast<double>(x.elems() / x.extent(-1));
  move_averages(moments, options_.unbiased_moving_variance && rows > 1 ? rows / (rows - 1) : 1);
  return y;
}

/// Moves the averages towards the moments of a batch; the variance is multiplied by `unbiased`.
void BatchNorm::move_averages(const Moments& moments, double unbiased) const {
  const auto move = [&](const Variable& average, const Tensor& towards, double factor) {
    average.assign(average.tensor() * options_.momentum +
                   stop_gradient(towards) * ((1 - options_.momentum) * factor));
  };
  move(moving_mean_, moments.mean, 1);
  move(moving_variance_, moments.variance, unbiased);
}

Tensor LayerNorm::forward(const Tensor& x) {
  const Variable& known = gamma_.defined() ? gamma_ : beta_;
  require_channels(x, known, kind(), 1);
  if (!known.defined()) {
    const TensorSpec spec{x.dtype(), {x.extent(-1)}};
    Variable beta, gamma;  // both or none: a failed build is started again
    if (options_.center) beta = make_parameter("beta", spec, init::zeros());
    if (options_.scale) gamma = make_parameter("gamma", spec, init::ones());
    beta_ = beta;
    gamma_ = gamma;
  }
  return layer_norm(x, value_of(gamma_), value_of(beta_), options_.epsilon);
}

Tensor RmsNorm::forward(const Tensor& x) {
  require_channels(x, gamma_, kind(), 1);
  if (options_.scale && !gamma_.defined())
    gamma_ = make_parameter("gamma", {x.dtype(), {x.extent(-1)}}, init::ones());
  return rms_norm(x, value_of(gamma_), options_.epsilon);
}

GroupNorm::GroupNorm(int64_t groups, NormOptions options) : groups_(groups), options_(options) {
  require(groups >= 1, ErrorCode::kInvalidArgument, "group_norm", "groups must be >= 1, got {}", groups);
}

Tensor GroupNorm::forward(const Tensor& x) {
  const Variable& known = gamma_.defined() ? gamma_ : beta_;
  require_channels(x, known, kind(), 2);
  if (!known.defined()) {
    require(x.extent(-1) % groups_ == 0, ErrorCode::kInvalidArgument, kind(),
            "{} groups don't divide the {} channels of {}", groups_, x.extent(-1), x.spec().str());
    const TensorSpec spec{x.dtype(), {x.extent(-1)}};
    Variable beta, gamma;
    if (options_.center) beta = make_parameter("beta", spec, init::zeros());
    if (options_.scale) gamma = make_parameter("gamma", spec, init::ones());
    beta_ = beta;
    gamma_ = gamma;
  }
  return group_norm(x, groups_, value_of(gamma_), value_of(beta_), options_.epsilon);
}

InstanceNorm::InstanceNorm(InstanceNormOptions options) : options_(options) {
  require(options.epsilon >= 0, ErrorCode::kInvalidArgument, "instance_norm", "epsilon must be >= 0, got {}",
          options.epsilon);
}

Tensor InstanceNorm::forward(const Tensor& x) {
  require_channels(x, gamma_, kind(), 3);
  if (options_.affine && !gamma_.defined()) {
    const TensorSpec spec{x.dtype(), {x.extent(-1)}};
    const Variable beta = make_parameter("beta", spec, init::zeros());
    gamma_ = make_parameter("gamma", spec, init::ones());
    beta_ = beta;
  }
  return instance_norm(x, value_of(gamma_), value_of(beta_), options_.epsilon);
}

}  // namespace isochron::nn
