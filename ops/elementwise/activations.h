// Further activation functions, composed of the ops in elementwise.h. Shapes, dtypes and errors are as
// described there.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// x / (1 + |x|).
Tensor softsign(const Tensor& x);
/// min(max(x, low), high); the gradient passes where low <= x <= high.
Tensor hard_tanh(const Tensor& x, double low = -1, double high = 1);
/// relu6(x + 3) / 6, a piecewise linear sigmoid.
Tensor hard_sigmoid(const Tensor& x);
/// x hard_sigmoid(x) (Howard et al., MobileNetV3, 2019).
Tensor hard_swish(const Tensor& x);
/// x tanh(softplus(x)) (Misra 2019).
Tensor mish(const Tensor& x);
/// log(sigmoid(x)), without overflow.
Tensor log_sigmoid(const Tensor& x);
/// max(x, 0) + min(alpha (e^(x / alpha) - 1), 0) (Barron 2017). Throws kInvalidArgument unless alpha > 0.
Tensor celu(const Tensor& x, double alpha = 1);
/// x where |x| > threshold, else 0.
Tensor hard_shrink(const Tensor& x, double threshold = 0.5);
/// x moved towards 0 by `threshold`; 0 if |x| <= threshold. Throws kInvalidArgument unless threshold >= 0.
Tensor soft_shrink(const Tensor& x, double threshold = 0.5);
/// x > 0 ? x : slope x, for a learned slope that broadcasts to x: one number, or one for each channel of the
/// last axis (He et al. 2015). Throws kShapeMismatch for a slope that would enlarge x.
Tensor prelu(const Tensor& x, const Tensor& slope);
/// Splits x in two halves along `axis`; the first half times the sigmoid of the second (Dauphin et al. 2016).
/// Throws kOutOfRange for the axis, kShapeMismatch for an odd extent.
Tensor glu(const Tensor& x, int64_t axis = -1);

}  // namespace isochron
