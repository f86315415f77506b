#include "isochron/nn/losses/focal_losses.h"

#include <limits>

#include "isochron/nn/losses/loss_operands.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::nn {
namespace {

/// miss^gamma. `miss` is clamped to a minimum for which f32 can represent the power's gradients; for gammas
/// below 1, also the second gradients: miss^-2.
Tensor focus(const Tensor& miss, double gamma, std::string_view loss) {
  require(gamma >= 0, ErrorCode::kInvalidArgument, loss, "gamma must be at least 0, got {}", gamma);
  constexpr double kSmallest = 1.2e-38, kSmallestOfRoots = 1e-18;
  return pow(maximum(miss, gamma < 1 ? kSmallestOfRoots : kSmallest), gamma);
}

/// The loss from widened targets, the probabilities that they are 1 and 0, and the cross-entropies.
Tensor binary_focal(const Tensor& t, const Tensor& yes, const Tensor& no, const Tensor& cross_entropy,
                    DType dtype, const BinaryFocalOptions& options, std::string_view loss) {
  // 1 - p_t, without a difference of nearly equal numbers.
  Tensor losses = focus(t * no + (1.0 - t) * yes, options.gamma, loss) * cross_entropy;
  if (options.alpha) {
    const double alpha = *options.alpha;
    require(alpha >= 0 && alpha <= 1, ErrorCode::kInvalidArgument, loss, "alpha must lie in [0, 1], got {}",
            alpha);
    losses = losses * (t * alpha + (1.0 - t) * (1 - alpha));
  }
  return reduce_widened(losses, dtype, reduction_of(options));
}

/// The loss from widened targets, the probabilities of not being a class, and the logarithms of being one.
Tensor categorical_focal(const Tensor& t, const Tensor& others, const Tensor& log_p, const Tensor& prediction,
                         const CategoricalFocalOptions& options, std::string_view loss) {
  const Tensor zero = scalar(0, t.dtype());
  const Tensor impossible = equal(log_p, scalar(-std::numeric_limits<double>::infinity(), t.dtype()));
  const Tensor log_of = where(logical_and(equal(t, zero), impossible), zero, log_p);  // 0 log 0 is 0
  Tensor losses = focus(others, options.gamma, loss) * t * log_of * -options.alpha;
  if (options.class_weights.defined()) losses = losses * widened(options.class_weights);
  return reduce_widened(sum(losses, {-1}), prediction.dtype(), reduction_of(options));
}

/// Checks operands and options. Returns the targets, widened and smoothed.
Tensor targets_of_classes(const Tensor& prediction, const Tensor& targets,
                          const CategoricalFocalOptions& options, std::string_view loss) {
  require_vectors(prediction, targets, loss);
  require_class_weights(options.class_weights, prediction, loss);
  return smoothed(widened(targets), options.label_smoothing, targets.extent(-1), loss);
}

}  // namespace

Tensor binary_focal_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                  const BinaryFocalOptions& options) {
  const ErrorScope scope("binary_focal_cross_entropy");
  constexpr std::string_view kName = "binary_focal_cross_entropy";
  require_numbers(probabilities, targets, kName);
  const Tensor t = smoothed(widened(targets), options.label_smoothing, 2, kName);
  const Tensor p = widened(probabilities);
  return binary_focal(t, p, 1.0 - p, isochron::binary_cross_entropy(p, t), probabilities.dtype(), options,
                      kName);
}

Tensor binary_focal_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets,
                                              const BinaryFocalOptions& options) {
  const ErrorScope scope("binary_focal_cross_entropy_from_logits");
  constexpr std::string_view kName = "binary_focal_cross_entropy_from_logits";
  require_numbers(logits, targets, kName);
  const Tensor t = smoothed(widened(targets), options.label_smoothing, 2, kName);
  const Tensor x = widened(logits);
  return binary_focal(t, sigmoid(x), sigmoid(-x), isochron::binary_cross_entropy_from_logits(x, t),
                      logits.dtype(), options, kName);
}

Tensor categorical_focal_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                       const CategoricalFocalOptions& options) {
  const ErrorScope scope("categorical_focal_cross_entropy");
  constexpr std::string_view kName = "categorical_focal_cross_entropy";
  const Tensor t = targets_of_classes(probabilities, targets, options, kName);
  const Tensor x = widened(probabilities);
  const Tensor p = clip(x / sum(x, {-1}, true), kKerasEpsilon, 1 - kKerasEpsilon);
  return categorical_focal(t, 1.0 - p, log(p), probabilities, options, kName);
}

Tensor softmax_focal_cross_entropy(const Tensor& logits, const Tensor& targets,
                                   const CategoricalFocalOptions& options) {
  const ErrorScope scope("softmax_focal_cross_entropy");
  constexpr std::string_view kName = "softmax_focal_cross_entropy";
  const Tensor t = targets_of_classes(logits, targets, options, kName);
  const Tensor log_p = log_softmax(widened(logits));
  return categorical_focal(t, -expm1(log_p), log_p, logits, options, kName);
}

}  // namespace isochron::nn
