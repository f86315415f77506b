// Checkpointing: trading time for memory.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// function(inputs), whose inner values the backward pass computes again instead of keeping them (Chen et
/// al.: "Training Deep Nets with Sublinear Memory Cost", 2016). In a capture only; the same numbers come out
/// bit for bit, dropout included. What `function` assigns is assigned once. Outside a capture it just calls
/// `function`: a tape keeps what it records. A checkpoint inside another belongs to the outer one.
///
/// To let memory decide instead, see CaptureOptions::passes.memory_budget_bytes.
std::vector<Tensor> checkpoint(const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function,
                               std::span<const Tensor> inputs);
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& x);

}  // namespace isochron
