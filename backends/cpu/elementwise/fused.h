// The kernel of elementwise ops, reductions and fused groups: runs an ElementProgram tile by tile.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Kernel for `program` on up to `threads` threads. Kernel inputs are the program's operands that aren't
/// immediate, in order. Throws kUnsupported if an op isn't defined for a dtype.
std::unique_ptr<graph::Kernel> make_fused_kernel(const graph::ElementProgram& program, int threads);

/// Kernel factories for single elementwise ops and reductions.
std::unique_ptr<graph::Kernel> prepare_elementwise(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_reduction(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_fused(const graph::KernelRequest& request);

}  // namespace isochron::ops
