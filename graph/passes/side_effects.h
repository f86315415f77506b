// What a node does besides computing its results, including in the sub-graphs that it runs.
#pragma once

#include <vector>

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {

/// Whether the node's op has a side effect (OpDef::side_effect), or an op in one of its sub-graphs does, such
/// as a branch that prints.
bool has_side_effect(const Node& node);

/// The sub-graphs that are attributes of `node`, such as a loop's body.
std::vector<const Graph*> sub_graphs(const Node& node);

/// The first node, among `node` and the nodes in its sub-graphs, for which `holds` returns true; null if
/// there is none.
const Node* find_within(const Node& node, bool (*holds)(const Node&));

}  // namespace isochron::graph
