#include "isochron/nn/losses/likelihood_losses.h"

#include <cmath>
#include <numbers>

#include "isochron/nn/losses/loss_operands.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::nn {

Tensor poisson_nll(const Tensor& prediction, const Tensor& target, const PoissonNllOptions& options) {
  const ErrorScope scope("poisson_nll");
  require_numbers(prediction, target, "poisson_nll");
  require(options.eps >= 0, ErrorCode::kInvalidArgument, "poisson_nll", "eps must be >= 0, got {}",
          options.eps);
  const Tensor x = widened(prediction), t = widened(target);
  Tensor losses = options.log_input ? exp(x) - t * x : x - t * log(x + options.eps);
  if (options.full) {
    const Tensor large = t > 1.0;
    const Tensor count = where(large, t, scalar(1, t.dtype()));  // log 0 has no gradient
    const Tensor stirling = count * log(count) - count + 0.5 * log(2 * std::numbers::pi * count);
    losses = losses + where(large, stirling, scalar(0, t.dtype()));
  }
  return reduce_widened(losses, prediction.dtype(), reduction_of(options));
}

Tensor poisson(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const ErrorScope scope("poisson");
  return poisson_nll(prediction, target,
                     {.reduction = options.reduction,
                      .sample_weights = options.sample_weights,
                      .log_input = false,
                      .eps = 1e-7,
                      .per_sample = options.per_sample});
}

Tensor gaussian_nll(const Tensor& prediction, const Tensor& target, const Tensor& variance,
                    const GaussianNllOptions& options) {
  const ErrorScope scope("gaussian_nll");
  constexpr std::string_view kName = "gaussian_nll";
  require_numbers(prediction, target, kName);
  require(variance.defined(), ErrorCode::kInvalidArgument, kName, "the variance is undefined");
  require(variance.rank() == 0 || variance.rank() == prediction.rank(), ErrorCode::kShapeMismatch, kName,
          "the variance {} must have as many axes as the predictions {}; give (N, 1) for one a row",
          variance.spec().str(), prediction.spec().str());
  require_broadcast(variance, prediction, "variance", kName);
  require_floating(prediction, variance, kName);
  require(options.eps > 0, ErrorCode::kInvalidArgument, kName, "eps must be > 0, got {}", options.eps);
  const Tensor v = widened(variance);
  // The larger of the two, with the gradient of v. Subtracting an infinite v from itself would give NaN.
  const Tensor least = where(v > options.eps, v, options.eps + (v - stop_gradient(v)));
  Tensor losses = 0.5 * (log(least) + square(widened(prediction) - widened(target)) / least);
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduce_widened(losses, prediction.dtype(), reduction_of(options));
}

}  // namespace isochron::nn
