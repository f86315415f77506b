// The parts that an op is written in where a backend has no kernel for it.
#pragma once

#include <span>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron::graph {

/// What OpDef::decompose of the call gives for `inputs`, recorded or run at once as any ops. Throws as its
/// parts, and kInvalidArgument where the results aren't `outputs`.
std::vector<Tensor> decomposed(const OpCall& call, std::span<const Tensor> inputs,
                               std::span<const TensorSpec> outputs);

}  // namespace isochron::graph
