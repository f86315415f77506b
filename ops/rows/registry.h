// The registry of all ops.
#pragma once

#include "isochron/graph/ir/backend.h"

namespace isochron::ops {

/// All op definitions; filled on first use.
const graph::Registry& registry();
/// The op definition named `name`, e.g. `static const graph::OpDef& op = ops::row("matmul");`. Throws
/// kInvalidArgument.
const graph::OpDef& row(std::string_view name);
/// Adds a user-defined op with the factories of its kernels for the CPU and, unless null, for CUDA devices.
/// Call this before the op is first used; not thread-safe. Throws kInvalidArgument if the name is taken, or
/// if `cpu` is null although the op is neither a view nor has a decomposition.
const graph::OpDef& register_op(graph::OpDef op, graph::KernelFactory cpu,
                                graph::KernelFactory cuda = nullptr);

}  // namespace isochron::ops
