// Further losses of numbers, by the definitions of Keras 3 (keras.io/api/losses) and PyTorch 2
// (torch.nn.functional); nn/losses/losses.h has the usual ones. The results are reduced like those; 16-bit
// operands are computed and summed in f32.
//
// prediction, target: (N, ...), of one floating dtype. All throw kShapeMismatch, kDtypeMismatch, and
// kInvalidArgument for an undefined operand, an empty batch or options outside their range.
#pragma once

#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

/// |e| < beta ? e^2 / (2 beta) : |e| - beta / 2, where e = prediction - target: PyTorch's smooth_l1_loss,
/// which is huber(delta = beta) / beta. beta >= 0; 0: |e|.
Tensor smooth_l1(const Tensor& prediction, const Tensor& target, double beta = 1,
                 const LossOptions& options = {});

/// 100 |e| / |t|, where |t| counts as at least 1e-7: Keras's definition.
Tensor mean_absolute_percentage_error(const Tensor& prediction, const Tensor& target,
                                      const LossOptions& options = {});

/// (log(1 + p) - log(1 + t))^2, where p and t count as at least 1e-7, so a prediction below 1e-7 has no
/// gradient: Keras's definition.
Tensor mean_squared_logarithmic_error(const Tensor& prediction, const Tensor& target,
                                      const LossOptions& options = {});

}  // namespace isochron::nn
