// The fastest of several kernels for a call, found by running them on memory of their own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// A kernel for `request` among `names` (see choose in backends/common/choices.h); `make(i)` makes candidate
/// i for `threads` threads, or gives null where it doesn't serve the call. Null when none does.
std::unique_ptr<graph::Kernel> choose_kernel(
    const graph::KernelRequest& request, int threads, std::span<const std::string_view> names,
    const std::function<std::unique_ptr<graph::Kernel>(size_t)>& make);

}  // namespace isochron::ops
