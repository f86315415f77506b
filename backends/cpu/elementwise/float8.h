// Kernels of ops/elementwise/float8.h.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Rounds operands in f32 or bf16, stores them in the workspace, and multiplies them as bf16. Null for f16.
std::unique_ptr<graph::Kernel> prepare_matmul_float8(const graph::KernelRequest& request);
/// For x in f32 or bf16; null for f16.
std::unique_ptr<graph::Kernel> prepare_float8_history(const graph::KernelRequest& request);

}  // namespace isochron::ops
