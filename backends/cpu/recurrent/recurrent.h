// Kernels of recurrent layers.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/recurrent/recurrent_layout.h"

namespace isochron::ops {

/// Tensors with a time axis may all be stored in the same 16-bit dtype. Null for other combinations of
/// dtypes.
std::unique_ptr<graph::Kernel> prepare_recurrent(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_recurrent_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
