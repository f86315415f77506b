// Kernels of ops/elementwise/float8.h.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Operands in f32 or bf16 are rounded into the workspace and multiplied as bf16. Null for f16.
std::unique_ptr<graph::Kernel> prepare_matmul_float8(const graph::KernelRequest& request);
/// x in f32 or bf16. Null for f16.
std::unique_ptr<graph::Kernel> prepare_float8_history(const graph::KernelRequest& request);

}  // namespace isochron::ops
