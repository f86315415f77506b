// Row-wise softmax kernels.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_softmax(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_log_softmax(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cross_entropy(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cross_entropy_gradient(const graph::KernelRequest& request);

}  // namespace isochron::ops
