// The kernel of the sorting ops: the first k elements of each line, in order. Each line is processed by one
// thread.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Attributes axis, k, largest; outputs values and positions, either of which may be unread.
std::unique_ptr<graph::Kernel> prepare_top_k(const graph::KernelRequest& request);

std::unique_ptr<graph::Kernel> prepare_searchsorted(const graph::KernelRequest& request);

}  // namespace isochron::ops
