// Rows of normalization over positions: moments of channels, and groups of channels of a sample or of a
// batch. Part of register_normalization (ops/normalization/normalization.cc); the functions are in
// ops/normalization/normalization.h.
#pragma once

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

void register_group_norm(graph::Registry& registry);

}  // namespace isochron::ops
