// Losses of regions that should overlap, as in segmentation, by the definitions of Keras 3
// (keras.io/api/losses).
//
// prediction, target: (N, ...), of one floating dtype, numbers in [0, 1]; 16-bit operands are computed and
// summed in f32. All throw kShapeMismatch, kDtypeMismatch, and kInvalidArgument for an undefined operand, an
// empty batch or options outside their range.
#pragma once

#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

struct OverlapOptions {
  /// The axes of one region, e.g. {1, 2, 3} for one region per sample, or {1, 2} for one per sample and
  /// channel (N, H, W, C). Empty: all axes, so that the whole batch is one region.
  Axes axes = {};
  /// How the regions' losses are reduced. Sample weights require that `axes` doesn't contain the first axis.
  LossOptions of_regions = {};
};
/// 1 - 2 sum p t / (sum p + sum t + 1e-7) (Milletari et al. 2016).
Tensor dice_loss(const Tensor& prediction, const Tensor& target, const OverlapOptions& options = {});
/// 1 - I / (I + alpha M + beta F + 1e-7), where I = sum p t, M = sum t (1 - p) is the missed part and F = sum
/// p (1 - t) is the falsely predicted part (Salehi et al. 2017). alpha, beta >= 0; with both 1/2 this is
/// dice_loss. The names are Keras's: alpha weights M.
Tensor tversky_loss(const Tensor& prediction, const Tensor& target, double alpha = 0.5, double beta = 0.5,
                    const OverlapOptions& options = {});

}  // namespace isochron::nn
