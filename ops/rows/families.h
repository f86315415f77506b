// The functions that fill the registry, one per family of ops. They are called explicitly, because a linker
// may drop static initializers of static libraries.
#pragma once

#include "isochron/graph/ir/backend.h"

namespace isochron::ops {

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
void register_distances(graph::Registry& registry);
void register_normalization(graph::Registry& registry);
void register_attention(graph::Registry& registry);
void register_debug(graph::Registry& registry);
void register_recurrent(graph::Registry& registry);
void register_scan(graph::Registry& registry);
void register_collectives(graph::Registry& registry);
void register_tree_accumulate(graph::Registry& registry);

}  // namespace isochron::ops
