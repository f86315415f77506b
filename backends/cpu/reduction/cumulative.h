// Kernels that scan along one axis. Each column is processed by one thread.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Attributes axis, exclusive, reverse.
std::unique_ptr<graph::Kernel> prepare_cumulative_sum(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cumulative_product(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_log_cumulative_sum_exp(const graph::KernelRequest& request);
/// Attributes axis, reverse; outputs values and positions, either of which may be unread.
std::unique_ptr<graph::Kernel> prepare_cumulative_max(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_cumulative_min(const graph::KernelRequest& request);
/// Inputs factors and terms; attributes axis, reverse.
std::unique_ptr<graph::Kernel> prepare_linear_recurrence(const graph::KernelRequest& request);

}  // namespace isochron::ops
