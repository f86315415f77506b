// The registry of all ops, and the functions that fill it, one per family. They are called explicitly,
// because a linker drops static initializers from static libraries.
#pragma once

#include "isochron/graph/ir/backend.h"

namespace isochron::ops {

/// All rows; filled on first use.
const graph::Registry& registry();
/// The row of `name`, e.g. `static const graph::OpDef& op = ops::row("matmul");`. Throws kInvalidArgument.
const graph::OpDef& row(std::string_view name);
/// Adds a user-defined op with the factories of its kernels for the CPU and, unless null, for CUDA devices.
/// Call this before the op is first used; not thread-safe. Throws kInvalidArgument if the name is taken, or
/// if there is no CPU kernel, unless the op is a view or has a decomposition.
const graph::OpDef& register_op(graph::OpDef op, graph::KernelFactory cpu,
                                graph::KernelFactory cuda = nullptr);

void register_elementwise(graph::Registry& registry);
void register_reductions(graph::Registry& registry);
void register_matmul(graph::Registry& registry);
void register_fused_product(graph::Registry& registry);
void register_float8(graph::Registry& registry);
void register_shapes(graph::Registry& registry);
void register_slicing(graph::Registry& registry);
void register_indexing(graph::Registry& registry);
void register_embedding(graph::Registry& registry);
void register_along_axis(graph::Registry& registry);
void register_cumulative(graph::Registry& registry);
void register_sorting(graph::Registry& registry);
void register_interpolation(graph::Registry& registry);
void register_linalg(graph::Registry& registry);
void register_optimizers(graph::Registry& registry);
void register_row_updates(graph::Registry& registry);
void register_tensor_lists(graph::Registry& registry);
void register_update_if(graph::Registry& registry);
void register_control(graph::Registry& registry);
void register_convolution(graph::Registry& registry);
void register_pooling(graph::Registry& registry);
void register_random(graph::Registry& registry);
void register_softmax(graph::Registry& registry);
void register_log_sum_exp(graph::Registry& registry);
void register_normalization(graph::Registry& registry);
void register_attention(graph::Registry& registry);
void register_debug(graph::Registry& registry);
void register_recurrent(graph::Registry& registry);
void register_scan(graph::Registry& registry);
void register_collectives(graph::Registry& registry);
void register_tree_accumulate(graph::Registry& registry);

}  // namespace isochron::ops
