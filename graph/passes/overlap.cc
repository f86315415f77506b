// Starts collectives as soon as their inputs are ready, so that they overlap with other nodes.
#include <algorithm>

#include "isochron/graph/ir/rewriter.h"
#include "isochron/graph/passes/passes.h"
#include "isochron/graph/passes/side_effects.h"

namespace isochron::graph {
namespace {

/// Whether any node in [first, end) isn't a collective, so that there is computation to overlap with.
bool computes(const Graph& graph, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    if (!graph.nodes()[i]->op->collective) return true;
  }
  return false;
}

}  // namespace

void start_collectives_early(Graph& graph) {
  const size_t count = graph.nodes().size();
  std::unordered_map<const Node*, size_t> rank;
  for (size_t i = 0; i < count; ++i) rank[graph.nodes()[i].get()] = 2 * i + 2;
  Rewriter rewriter(graph);
  std::vector<bool> keep(count, true);
  size_t last_start = 0;
  for (size_t i = 0; i < count; ++i) {
    Node& node = *graph.nodes()[i];
    rewriter.update_inputs(node);
    if (!node.op->split) {
      // All ranks must start the same collectives in the same order, even if their graphs differ otherwise.
      if (find_within(node, [](const Node& n) { return n.op->collective; })) last_start = rank.at(&node);
      continue;
    }
    size_t ready = last_start;
    for (const Value* input : node.inputs) {
      if (input->producer != nullptr) ready = std::max(ready, rank.at(input->producer));
    }
    const std::vector<TensorSpec> specs = node.input_specs();
    auto pending = node.op->split->pending({*node.op, specs, node.attributes});
    if (!pending) continue;
    Attributes attributes = node.attributes;
    attributes.set("pending", std::move(pending));
    if (!computes(graph, ready / 2, i)) attributes.set("waited_for_at_once", true);
    const Registry& registry = *node.op->registry;
    Node* start = graph.add_node(registry.at(node.op->split->start), node.inputs, attributes, node.scope);
    Node* wait = graph.add_node(registry.at(node.op->split->wait), start->outputs, attributes, node.scope);
    rank[start] = last_start = ready | 1;
    rank[wait] = 2 * i + 2;
    for (size_t o = 0; o < wait->outputs.size(); ++o) rewriter.replace(node.outputs[o], wait->outputs[o]);
    keep[i] = false;
  }
  rewriter.finish();
  keep.resize(graph.nodes().size(), true);
  if (std::ranges::find(keep, false) == keep.end()) return;
  graph.retain_nodes(keep);
  sort_nodes(graph, rank);
}

}  // namespace isochron::graph
