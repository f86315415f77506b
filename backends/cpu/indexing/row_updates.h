// The kernels of ops/indexing/row_updates.h.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_coalesce_rows(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_update_rows(const graph::KernelRequest& request);

}  // namespace isochron::ops
