// Negative log-likelihoods of counts and of numbers with a variance: PyTorch's nn.PoissonNLLLoss and
// nn.GaussianNLLLoss, and Keras 3's poisson. The results are reduced like the losses in nn/losses/losses.h;
// 16-bit operands are computed and summed in f32. All throw kShapeMismatch, kDtypeMismatch, and
// kInvalidArgument for an undefined operand, an empty batch or options outside their range.
#pragma once

#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

struct PoissonNllOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// Whether predictions are the logarithms of the expected counts instead of the counts themselves.
  bool log_input = true;
  /// If t > 1, adds Stirling's approximation of log t!: t log t - t + log(2 pi t) / 2.
  bool full = false;
  /// Added to expected counts before their logarithm; at least 0.
  double eps = 1e-8;
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};
/// prediction, target: (N, ...). An element's loss is e^x - t x if predictions are logarithms, or
/// x - t log(x + eps) if they are counts.
Tensor poisson_nll(const Tensor& prediction, const Tensor& target, const PoissonNllOptions& options = {});

/// Keras's poisson, x - t log(x + 1e-7): poisson_nll of counts with another eps.
Tensor poisson(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

struct GaussianNllOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// Adds log(2 pi) / 2.
  bool full = false;
  /// The smallest variance, > 0. A smaller variance counts as eps. So does a negative one, which PyTorch
  /// rejects. Its gradient is the gradient at eps, so it can grow again.
  double eps = 1e-6;
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};
/// prediction, target: (N, ...). variance v: a scalar, or a tensor with the same number of axes that
/// broadcasts to their shape, such as (N, 1) for one variance per row of (N, C). An element's loss is (log v
/// + (x - t)^2 / v) / 2.
Tensor gaussian_nll(const Tensor& prediction, const Tensor& target, const Tensor& variance,
                    const GaussianNllOptions& options = {});

}  // namespace isochron::nn
