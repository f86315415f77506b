// `matmul_add` as the backend's product, then its element program for the rest.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_matmul_add(const graph::KernelRequest& request);

}  // namespace isochron::ops
