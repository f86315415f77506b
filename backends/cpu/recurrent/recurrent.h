// Kernels of recurrent layers.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/recurrent/recurrent_layout.h"

namespace isochron::ops {

/// Tensors that have an axis of time may be stored in 16 bits, all in one dtype; else null.
std::unique_ptr<graph::Kernel> prepare_recurrent(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_recurrent_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
