// The kernel of ops/optimizer/tree_accumulate.h: one pass over the gradients of all parameters.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_tree_accumulate(const graph::KernelRequest& request);

}  // namespace isochron::ops
