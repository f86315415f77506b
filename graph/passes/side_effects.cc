#include "isochron/graph/passes/side_effects.h"

#include <algorithm>
#include <memory>
#include <variant>

namespace isochron::graph {

bool has_side_effect(const Node& node) {
  if (node.op->side_effect) return true;
  return std::ranges::any_of(node.attributes.entries(), [](const auto& entry) {
    const auto* object = std::get_if<std::shared_ptr<const AttributeObject>>(&entry.second);
    const auto* below = object != nullptr ? dynamic_cast<const SubGraph*>(object->get()) : nullptr;
    return below != nullptr && std::ranges::any_of(below->graph->nodes(),
                                                   [](const auto& inner) { return has_side_effect(*inner); });
  });
}

}  // namespace isochron::graph
