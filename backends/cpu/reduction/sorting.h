// The kernel behind sorting: the first k of each line, in order. A line belongs to one thread.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Attributes axis, k, largest; outputs values and positions, of which either may be unread.
std::unique_ptr<graph::Kernel> prepare_top_k(const graph::KernelRequest& request);

std::unique_ptr<graph::Kernel> prepare_searchsorted(const graph::KernelRequest& request);

}  // namespace isochron::ops
