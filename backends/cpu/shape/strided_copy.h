// Copies a strided view of the input into a contiguous output: transposes, slices.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// output[i0, i1, ...] = input[offset_elems + sum i_k strides[k]]. Strides in elements, possibly 0 or
/// negative.
std::unique_ptr<graph::Kernel> make_strided_copy(const TensorSpec& output, const Strides& strides,
                                                 int64_t offset_elems, int threads);

std::unique_ptr<graph::Kernel> prepare_transpose(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_slice(const graph::KernelRequest& request);

}  // namespace isochron::ops
