#include "isochron/graph/passes/side_effects.h"

#include <memory>
#include <variant>

namespace isochron::graph {

bool has_side_effect(const Node& node) {
  return find_within(node, [](const Node& inner) { return inner.op->side_effect; }) != nullptr;
}

const Node* find_within(const Node& node, bool (*holds)(const Node&)) {
  if (holds(node)) return &node;
  for (const auto& [name, value] : node.attributes.entries()) {
    const auto* object = std::get_if<std::shared_ptr<const AttributeObject>>(&value);
    const auto* below = object != nullptr ? dynamic_cast<const SubGraph*>(object->get()) : nullptr;
    if (below == nullptr) continue;
    for (const auto& inner : below->graph->nodes()) {
      if (const Node* found = find_within(*inner, holds)) return found;
    }
  }
  return nullptr;
}

}  // namespace isochron::graph
