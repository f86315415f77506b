// The kernels of ops/collective/collectives.h. Each runs one collective: the group's thread runs it while the
// calling thread waits.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_all_reduce(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_all_reduce_start(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_all_reduce_wait(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_all_gather(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_reduce_scatter(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_broadcast(const graph::KernelRequest& request);

}  // namespace isochron::ops
