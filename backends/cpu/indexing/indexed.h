// Kernels that select elements by index. Indices are checked before anything is written.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_gather(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scatter_add(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scatter(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scatter_max(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_scatter_min(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_take_along_axis(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_put_add_along_axis(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_one_hot(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_argmax(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_argmin(const graph::KernelRequest& request);

/// Throws kOutOfRange naming `where`, the position, the index and the bound unless all `count` indices (i32
/// or i64) lie in [0, bound). `what` is the word for them in the message: "index", "label".
void check_indices(const void* indices, DType dtype, int64_t count, int64_t bound, std::string_view where,
                   std::string_view what);

}  // namespace isochron::ops
