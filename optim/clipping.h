// Gradient clipping, written in ops, for use between `gradients` and `Optimizer::apply`. Optimizers clip
// gradients themselves at less cost if their step options request it (optim/step_options.h).
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::optim {

/// sqrt(sum of squares of all elements of all tensors), summed in f64. The result is () of the tensors'
/// dtype, f32 or f64. Undefined tensors are ignored. Throws kInvalidArgument if all are undefined,
/// kDtypeMismatch for other or mixed dtypes.
Tensor global_norm(std::span<const Tensor> tensors);
/// All tensors scaled by max_norm / max(norm, max_norm), so that their global norm is at most max_norm
/// (Pascanu, Mikolov, Bengio: "On the difficulty of training recurrent neural networks", ICML 2013).
/// Undefined tensors stay undefined. Throws kInvalidArgument unless max_norm > 0.
std::vector<Tensor> clip_by_global_norm(std::span<const Tensor> tensors, double max_norm);
/// Each tensor scaled by max_norm / max(its norm, max_norm). Throws kInvalidArgument unless max_norm > 0.
std::vector<Tensor> clip_by_norm(std::span<const Tensor> tensors, double max_norm);
/// Every element clipped to [-limit, limit]. Throws kInvalidArgument unless limit > 0.
std::vector<Tensor> clip_by_value(std::span<const Tensor> tensors, double limit);

}  // namespace isochron::optim
