// What a node does beside its results, also in the sub-graphs that it runs.
#pragma once

#include <vector>

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {

/// Its op has a side effect (OpDef::side_effect), or one in a sub-graph of it has, such as a branch that
/// prints.
bool has_side_effect(const Node& node);

/// Those that are attributes of `node`, such as a loop's body.
std::vector<const Graph*> sub_graphs(const Node& node);

/// The first, of `node` and what lies in its sub-graphs, for which `holds` does; null: there is none.
const Node* find_within(const Node& node, bool (*holds)(const Node&));

}  // namespace isochron::graph
