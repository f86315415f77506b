// Checkpointing: trading time for memory.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Returns function(inputs). The backward pass recomputes the inner values of `function` instead of keeping
/// them (Chen et al.: "Training Deep Nets with Sublinear Memory Cost", 2016). The results are the same bit
/// for bit, including dropout. Assignments in `function` are made once. This works only in a capture; outside
/// one, this just calls `function`, because a tape keeps what it records. A checkpoint inside another one
/// belongs to the outer one.
///
/// To let a memory budget decide instead, see CaptureOptions::passes.memory_budget_bytes.
std::vector<Tensor> checkpoint(const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function,
                               std::span<const Tensor> inputs);
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& x);

}  // namespace isochron
