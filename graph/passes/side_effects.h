// Whether a node does something beside its results.
#pragma once

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {

/// Its op has a side effect (OpDef::side_effect), or one in a sub-graph of it has, such as a branch that
/// prints.
bool has_side_effect(const Node& node);

}  // namespace isochron::graph
