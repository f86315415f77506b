// The kernel that copies results at the end of a plan.
#pragma once

#include <cstddef>
#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::graph {

/// Copies `bytes` of its input to its output: on the host, or in a stream of `gpu` unless that is null.
std::unique_ptr<Kernel> copy_kernel(size_t bytes, cuda::Gpu* gpu);

}  // namespace isochron::graph
