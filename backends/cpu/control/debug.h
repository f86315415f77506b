// Kernels of the debugging ops, which inspect their input and return it.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_print(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_check_numerics(const graph::KernelRequest& request);

}  // namespace isochron::ops
