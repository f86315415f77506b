#include "isochron/graph/passes/side_effects.h"

#include <memory>
#include <variant>

namespace isochron::graph {

bool has_side_effect(const Node& node) {
  return find_within(node, [](const Node& inner) { return inner.op->side_effect; }) != nullptr;
}

std::vector<const Graph*> sub_graphs(const Node& node) {
  std::vector<const Graph*> result;
  for (const auto& [name, value] : node.attributes.entries()) {
    const auto* object = std::get_if<std::shared_ptr<const AttributeObject>>(&value);
    if (object == nullptr) continue;
    if (const auto* below = dynamic_cast<const SubGraph*>(object->get()))
      result.push_back(below->graph.get());
  }
  return result;
}

const Node* find_within(const Node& node, bool (*holds)(const Node&)) {
  if (holds(node)) return &node;
  for (const Graph* below : sub_graphs(node)) {
    for (const auto& inner : below->nodes()) {
      if (const Node* found = find_within(*inner, holds)) return found;
    }
  }
  return nullptr;
}

}  // namespace isochron::graph
