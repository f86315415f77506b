// Optimizer updates whose moves depend on norms, in other ops: how a device runs them.
#pragma once

#include <span>
#include <vector>

#include "isochron/graph/op.h"

namespace isochron::ops {

/// All results of the rows of ops/optimizer_updates.h.
std::vector<Tensor> decompose_lamb_update(const graph::OpCall& call, std::span<const Tensor> inputs);
std::vector<Tensor> decompose_adafactor_update(const graph::OpCall& call, std::span<const Tensor> inputs);

}  // namespace isochron::ops
