// The kernel behind every elementwise op, reduction and fused group: runs an ElementProgram tile by tile.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Kernel for `program` on up to `threads` threads. Kernel inputs are the program's operands that aren't
/// immediate, in order. Throws kUnsupported where an op isn't defined on a dtype.
std::unique_ptr<graph::Kernel> make_fused_kernel(const graph::ElementProgram& program, int threads);

/// Row functions for single elementwise ops and reductions (registry rows point here).
std::unique_ptr<graph::Kernel> prepare_elementwise(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_reduction(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_fused(const graph::KernelRequest& request);

}  // namespace isochron::ops
