// The table of kernels for CUDA devices by op.
#pragma once

#include "isochron/graph/ir/backend.h"

namespace isochron::ops {

/// Filled on the first call.
graph::KernelTable& cuda_kernels();

}  // namespace isochron::ops
