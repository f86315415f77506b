#include "isochron/backends/common/sub_graph_kernels.h"

namespace isochron::ops {

using graph::Graph;

std::unique_ptr<Graph> in_place(const Graph& body, size_t first_state) {
  std::unique_ptr<Graph> graph = body.clone();
  for (size_t i = 0; i < graph->outputs().size(); ++i) {
    graph::Value* const state = graph->inputs()[first_state + i];
    if (graph->outputs()[i] != state) graph->updates().push_back({state, graph->outputs()[i]});
  }
  graph->outputs().clear();
  return graph;
}

std::unique_ptr<Graph> scan_body_in_place(const ScanLayout& layout, std::span<const bool> unread) {
  std::unique_ptr<Graph> graph = layout.graph().clone();
  const std::vector<graph::Value*> results = graph->outputs();
  graph->outputs().clear();
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= layout.states) {
      if (unread.empty() || !unread[i]) graph->outputs().push_back(results[i]);
    } else if (results[i] != graph->inputs()[i + 1]) {
      graph->updates().push_back({graph->inputs()[i + 1], results[i]});
    }
  }
  return graph;
}

}  // namespace isochron::ops
