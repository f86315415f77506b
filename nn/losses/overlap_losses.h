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
  /// The axes of one region, e.g. {1, 2, 3} for one a sample, {1, 2} for one a sample and channel (N, H, W,
  /// C). Empty: all, which are one region of the whole batch.
  Axes axes = {};
  /// Of the regions' losses. Weights need the first axis left out of `axes`.
  LossOptions of_regions = {};
};
/// 1 - 2 sum p t / (sum p + sum t + 1e-7) (Milletari et al. 2016).
Tensor dice_loss(const Tensor& prediction, const Tensor& target, const OverlapOptions& options = {});
/// 1 - I / (I + alpha M + beta F + 1e-7) with I = sum p t, what was missed M = sum t (1 - p) and what was
/// found falsely F = sum p (1 - t) (Salehi et al. 2017). alpha, beta >= 0; both 1/2 give dice_loss. Keras's
/// names, whose alpha weighs M.
Tensor tversky_loss(const Tensor& prediction, const Tensor& target, double alpha = 0.5, double beta = 0.5,
                    const OverlapOptions& options = {});

}  // namespace isochron::nn
