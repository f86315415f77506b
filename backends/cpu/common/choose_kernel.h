// Chooses the fastest of several kernels for a call by running them on separate memory.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Chooses a kernel for `request` from `names` (see choose in backends/common/choices.h). `make(i)` creates
/// candidate i for `threads` threads, or returns null if it doesn't support the call. Returns null if no
/// candidate supports the call.
std::unique_ptr<graph::Kernel> choose_kernel(
    const graph::KernelRequest& request, int threads, std::span<const std::string_view> names,
    const std::function<std::unique_ptr<graph::Kernel>(size_t)>& make);

}  // namespace isochron::ops
