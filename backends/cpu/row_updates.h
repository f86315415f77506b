// The kernels of ops/row_updates.h.
#pragma once

#include <memory>

#include "isochron/graph/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_coalesce_rows(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_update_rows(const graph::KernelRequest& request);

}  // namespace isochron::ops
