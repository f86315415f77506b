// Replaces nodes with new ones; shared by the passes that put new nodes into a graph.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isochron/graph/ir/rewriter.h"
#include "isochron/graph/passes/passes.h"

namespace isochron::graph {

/// Changes of a graph. The nodes that existed at construction stay in the graph until finish().
class Replacement {
 public:
  explicit Replacement(Graph& graph) : values(graph), graph_(graph), keep_(graph.nodes().size(), true) {
    for (size_t i = 0; i < keep_.size(); ++i) rank_[graph.nodes()[i].get()] = i;
  }

  /// Adds a node at the position of `place`, in the same checkpointed part.
  Node& add(const Node& place, std::string_view op, const std::vector<Value*>& inputs, Attributes attributes,
            const std::string& scope) {
    Node* node = graph_.add_node(place.op->registry->at(op), inputs, std::move(attributes), scope);
    node->checkpoint = place.checkpoint;
    node->checkpoint_result = place.checkpoint_result;
    rank_[node] = rank_.at(&place);
    return *node;
  }
  /// Removes a node at finish(). Nobody may need it once its values are replaced.
  void drop(const Node& node) { keep_[rank_.at(&node)] = false; }
  /// The position of a node in the original graph; for a new node, that of the node that it replaces.
  size_t rank(const Node& node) const { return rank_.at(&node); }

  void finish() {
    if (std::ranges::find(keep_, false) == keep_.end()) return;
    keep_.resize(graph_.nodes().size(), true);
    graph_.retain_nodes(keep_);
    for (const auto& node : graph_.nodes()) values.update_inputs(*node);
    values.finish();
    sort_nodes(graph_, rank_);
  }

  Rewriter values;

 private:
  Graph& graph_;
  std::vector<bool> keep_;
  std::unordered_map<const Node*, size_t> rank_;
};

}  // namespace isochron::graph
