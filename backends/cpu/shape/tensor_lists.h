// The kernels of ops/shape/tensor_lists.h: one pass over all tensors in Highway, for f32 and f64.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_square_sum(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_blend(const graph::KernelRequest& request);

}  // namespace isochron::ops
