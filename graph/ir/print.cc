// A graph as text.
#include "isochron/graph/ir/graph.h"

namespace isochron::graph {
namespace {

std::string value_list(const std::vector<Value*>& values) {
  std::string text;
  for (const Value* value : values) text += fmt::format("{}%{}", text.empty() ? "" : ", ", value->id);
  return text;
}

std::string spec_list(const std::vector<Value*>& values) {
  std::string text;
  for (const Value* value : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", value->spec.str());
  return text;
}

void append_text(const Graph& graph, const std::string& indent, std::string& text) {
  for (const Value* value : graph.inputs()) {
    text += fmt::format("{}%{} = input {} : {}\n", indent, value->id, value->index, value->spec.str());
  }
  for (const Value* value : graph.bound()) {
    text += fmt::format("{}%{} = {} : {}\n", indent, value->id, value->constant() ? "constant" : "bound",
                        value->spec.str());
  }
  for (const auto& node : graph.nodes()) {
    const std::string attributes = node->attributes.str();
    text += fmt::format("{}{} = {}({}){} : {}", indent, value_list(node->outputs), node->op->name,
                        value_list(node->inputs), attributes.empty() ? "" : " {" + attributes + "}",
                        spec_list(node->outputs));
    text += node->scope.empty() ? "\n" : fmt::format("  # {}\n", node->scope);
    for (const auto& [name, attribute] : node->attributes.entries()) {
      const auto* object = std::get_if<std::shared_ptr<const AttributeObject>>(&attribute);
      const auto* sub = object ? dynamic_cast<const SubGraph*>(object->get()) : nullptr;
      if (!sub) continue;
      text += fmt::format("{}  {}:\n", indent, name);
      append_text(*sub->graph, indent + "    ", text);
    }
  }
  for (const Update& update : graph.updates()) {
    text += fmt::format("{}update %{} <- %{}\n", indent, update.target->id, update.value->id);
  }
  text += fmt::format("{}return {}\n", indent, value_list(graph.outputs()));
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text;
  append_text(graph, "", text);
  return text;
}

}  // namespace isochron::graph
