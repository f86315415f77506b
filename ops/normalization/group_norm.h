// Registry rows of normalizations over positions: channel moments, group normalization and batch
// normalization. They are part of register_normalization (ops/normalization/normalization.cc); the public
// functions are in ops/normalization/normalization.h.
#pragma once

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

void register_group_norm(graph::Registry& registry);

}  // namespace isochron::ops
