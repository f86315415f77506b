#include "isochron/nn/losses/regression_losses.h"

#include "isochron/nn/losses/loss_operands.h"
#include "isochron/ops/elementwise/elementwise.h"

namespace isochron::nn {

Tensor smooth_l1(const Tensor& prediction, const Tensor& target, double beta, const LossOptions& options) {
  const ErrorScope scope("smooth_l1");
  require_numbers(prediction, target, "smooth_l1");
  require(beta >= 0, ErrorCode::kInvalidArgument, "smooth_l1", "beta must be >= 0, got {}", beta);
  const Tensor error = widened(prediction) - widened(target), size = abs(error);
  const Tensor losses =
      beta == 0 ? size : where(size < beta, square(error) * (0.5 / beta), size - 0.5 * beta);
  return reduce_widened(losses, prediction.dtype(), options);
}

Tensor mean_absolute_percentage_error(const Tensor& prediction, const Tensor& target,
                                      const LossOptions& options) {
  const ErrorScope scope("mean_absolute_percentage_error");
  require_numbers(prediction, target, "mean_absolute_percentage_error");
  const Tensor t = widened(target);
  const Tensor losses = abs(widened(prediction) - t) / maximum(abs(t), kKerasEpsilon) * 100.0;
  return reduce_widened(losses, prediction.dtype(), options);
}

Tensor mean_squared_logarithmic_error(const Tensor& prediction, const Tensor& target,
                                      const LossOptions& options) {
  const ErrorScope scope("mean_squared_logarithmic_error");
  require_numbers(prediction, target, "mean_squared_logarithmic_error");
  const auto logarithm = [](const Tensor& x) { return log1p(maximum(widened(x), kKerasEpsilon)); };
  return reduce_widened(square(logarithm(prediction) - logarithm(target)), prediction.dtype(), options);
}

}  // namespace isochron::nn
