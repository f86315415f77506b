#include "isochron/nn/losses/overlap_losses.h"

#include "isochron/nn/losses/loss_operands.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"

namespace isochron::nn {
namespace {

void require_regions(const Tensor& prediction, const Tensor& target, std::string_view loss) {
  require_numbers(prediction, target, loss);
  require(prediction.elems() > 0, ErrorCode::kInvalidArgument, loss,
          "the predictions {} are empty, which has no mean loss; leave the batch out",
          prediction.spec().str());
}

/// Losses of regions: 1 - overlap / whole.
Tensor reduce_regions(const Tensor& overlap, const Tensor& whole, DType dtype, const OverlapOptions& options,
                      std::string_view loss) {
  const Tensor losses = 1.0 - overlap / (whole + kKerasEpsilon);
  if (losses.rank() > 0) return reduce_widened(losses, dtype, options.of_regions);
  require(!options.of_regions.sample_weights.defined(), ErrorCode::kInvalidArgument, loss,
          "samples have weights, but the batch is one region; leave the first axis out of `axes`");
  return cast(losses, dtype);
}

}  // namespace

Tensor dice_loss(const Tensor& prediction, const Tensor& target, const OverlapOptions& options) {
  const ErrorScope scope("dice_loss");
  require_regions(prediction, target, "dice_loss");
  const Tensor p = widened(prediction), t = widened(target);
  const Axes& axes = options.axes;
  return reduce_regions(sum(p * t, axes) * 2.0, sum(p, axes) + sum(t, axes), prediction.dtype(), options,
                        "dice_loss");
}

Tensor tversky_loss(const Tensor& prediction, const Tensor& target, double alpha, double beta,
                    const OverlapOptions& options) {
  const ErrorScope scope("tversky_loss");
  require_regions(prediction, target, "tversky_loss");
  require(alpha >= 0 && beta >= 0, ErrorCode::kInvalidArgument, "tversky_loss",
          "alpha and beta must be >= 0, got {} and {}", alpha, beta);
  const Tensor p = widened(prediction), t = widened(target);
  const Axes& axes = options.axes;
  const Tensor overlap = sum(p * t, axes);
  const Tensor missed = sum(t * (1.0 - p), axes), found_falsely = sum(p * (1.0 - t), axes);
  return reduce_regions(overlap, overlap + missed * alpha + found_falsely * beta, prediction.dtype(), options,
                        "tversky_loss");
}

}  // namespace isochron::nn
