// The kernel of `log_sum_exp`.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_log_sum_exp(const graph::KernelRequest& request);

}  // namespace isochron::ops
