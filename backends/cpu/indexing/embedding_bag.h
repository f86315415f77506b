// The kernel of `embedding_bag` (ops/indexing/embedding.h). Indices and offsets are checked before anything
// is written.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_embedding_bag(const graph::KernelRequest& request);

}  // namespace isochron::ops
