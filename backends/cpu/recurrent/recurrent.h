// Kernels of recurrent layers.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/recurrent/recurrent_layout.h"

namespace isochron::ops {

/// Tensors with an axis of time may be stored in one 16-bit dtype, the same for all; else null.
std::unique_ptr<graph::Kernel> prepare_recurrent(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_recurrent_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
