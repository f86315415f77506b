// Kernels that write blocks of elements into a larger output.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// The op `pad`: fills the output with `value`, then output[starts + i * steps] = input[i].
std::unique_ptr<graph::Kernel> prepare_pad(const graph::KernelRequest& request);
/// The op `concatenate`: inputs side by side along `axis`.
std::unique_ptr<graph::Kernel> prepare_concatenate(const graph::KernelRequest& request);

}  // namespace isochron::ops
