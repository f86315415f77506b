// Kernels that look through what they have computed: for finding where NaN and infinity come from.
#pragma once

#include <memory>

#include "isochron/graph/graph.h"

namespace isochron::graph {

/// `kernel`, the one of `node`, whose every run throws kNotANumber when a floating result of it holds NaN or
/// infinity, naming node, op, result, how many and the first. Results are left as computed.
std::unique_ptr<Kernel> checked_kernel(std::unique_ptr<Kernel> kernel, const Node& node);

}  // namespace isochron::graph
