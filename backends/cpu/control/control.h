// Kernels of the ops with sub-graphs, and of `stack_row`, which the gradients of these ops use to read rows.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_cond(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_while_loop(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_update_if(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scan(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_stack_row(const graph::KernelRequest& request);

}  // namespace isochron::ops
