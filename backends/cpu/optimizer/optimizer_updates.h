// The kernels of ops/optimizer/optimizer_updates.h: one pass over all parameters in Highway, for f32 and f64.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_optimizer_update(const graph::KernelRequest& request);

}  // namespace isochron::ops
