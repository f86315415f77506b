// Decomposes an op into its parts if a backend has no kernel for it.
#pragma once

#include <span>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron::graph {

/// The result of the call's OpDef::decompose for `inputs`, recorded or run at once like any other ops. Throws
/// like its parts, and kInvalidArgument if the results don't match `outputs`.
std::vector<Tensor> decomposed(const OpCall& call, std::span<const Tensor> inputs,
                               std::span<const TensorSpec> outputs);

}  // namespace isochron::graph
