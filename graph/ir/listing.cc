// A graph as a list of named nodes.
#include <unordered_set>

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {
namespace {

/// Names consist of letters, digits and "_.-/", which TensorFlow allows, so its tools can read them.
std::string tidied(std::string name) {
  for (char& c : name) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.' || c == '-' || c == '/';
    if (!fine) c = '_';
  }
  return name;
}

class Lister {
 public:
  Lister(const BoundNames& names, GraphListing& listing) : names_(names), listing_(listing) {}

  void list(const Graph& graph, const std::string& prefix) {
    for (const Value* input : graph.inputs()) {
      add(input, fmt::format("{}input_{}", prefix, input->index), {"input", {}, {input->spec}});
    }
    const std::unordered_map<const Value*, int> uses = graph.use_counts();
    std::unordered_set<const Value*> updated;
    for (const Update& update : graph.updates()) updated.insert(update.target);
    for (const Value* value : graph.bound()) {
      if (!uses.contains(value) && !updated.contains(value)) continue;  // folded or fused away
      add(value, prefix + bound_name(value),
          {value->constant() ? "constant" : "variable", {}, {value->spec}});
    }
    for (const auto& node : graph.nodes()) list_node(*node, prefix);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const Value* output = graph.outputs()[i];
      listing_.push_back(
          {unique(fmt::format("{}output_{}", prefix, i)), "output", {reference(output)}, {}, {}});
    }
    for (const Update& update : graph.updates()) {
      listing_.push_back({unique(names_of_values_.at(update.target) + "_update"),
                          "update",
                          {reference(update.value)},
                          {},
                          {{"of", names_of_values_.at(update.target)}}});
    }
  }

 private:
  struct Listed {
    std::string op;
    std::vector<std::string> inputs;
    std::vector<TensorSpec> outputs;
  };

  std::string unique(const std::string& wanted) {
    std::string name = tidied(wanted);
    for (int copy = 1; !taken_.insert(name).second; ++copy) {
      name = fmt::format("{}_{}", tidied(wanted), copy);
    }
    return name;
  }

  std::string bound_name(const Value* value) const {
    const Tensor& tensor = value->bound;
    const auto found = names_.find(tensor.storage()->data() + tensor.impl()->offset_bytes);
    if (found != names_.end()) return found->second;
    return fmt::format("{}_{}", value->constant() ? "constant" : "variable", value->id);
  }

  void add(const Value* value, const std::string& name, Listed listed) {
    ListedNode node{
        unique(name), std::move(listed.op), std::move(listed.inputs), std::move(listed.outputs), {}};
    names_of_values_[value] = node.name;
    listing_.push_back(std::move(node));
  }

  std::string reference(const Value* value) const {
    if (value->producer == nullptr) return names_of_values_.at(value);
    const std::string& node = names_of_values_.at(value->producer->outputs[0]);
    return value->index == 0 ? node : fmt::format("{}:{}", node, value->index);
  }

  void list_node(const Node& node, const std::string& prefix) {
    Listed listed{node.op->name, {}, node.output_specs()};
    for (const Value* input : node.inputs) listed.inputs.push_back(reference(input));
    const size_t position = listing_.size();
    if (node.outputs.empty()) {
      listing_.push_back({unique(prefix + node.name()), listed.op, listed.inputs, {}, {}});
    } else {
      add(node.outputs[0], prefix + node.name(), std::move(listed));
    }
    for (const auto& [name, attribute] : node.attributes.entries()) {
      Attributes one;
      one.set(name, attribute);
      const std::string text = one.str();
      listing_[position].attributes.emplace_back(name, text.substr(std::min(text.size(), name.size() + 1)));
      const auto* object = std::get_if<std::shared_ptr<const AttributeObject>>(&attribute);
      const auto* body = object ? dynamic_cast<const SubGraph*>(object->get()) : nullptr;
      if (body == nullptr) continue;
      const std::string scope = listing_[position].name;  // the list may move while it grows
      list(*body->graph, fmt::format("{}/{}/", scope, name));
    }
  }

  const BoundNames& names_;
  GraphListing& listing_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<const Value*, std::string> names_of_values_;
};

}  // namespace

GraphListing list_nodes(const Graph& graph, const BoundNames& names) {
  GraphListing listing;
  Lister(names, listing).list(graph, "");
  return listing;
}

}  // namespace isochron::graph
