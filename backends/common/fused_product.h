// `fused_product` as two kernels: the backend's product, followed by the element program.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_product_then_program(const graph::KernelRequest& request);

}  // namespace isochron::ops
