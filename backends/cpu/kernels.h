// The table of CPU kernels by op.
#pragma once

#include "isochron/graph/ir/backend.h"

namespace isochron::ops {

/// Filled on the first call. Throws like limit_vector_target (backends/common/vector_target.h).
graph::KernelTable& cpu_kernels();

}  // namespace isochron::ops
