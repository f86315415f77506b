// Traces a C++ function into a bare graph, for tests of passes and printers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isochron/graph/capture/capture.h"
#include "isochron/graph/passes/passes.h"
#include "isochron/graph/step/captured.h"

namespace isochron::graph {

template <typename F>
std::unique_ptr<Graph> trace(const std::vector<TensorSpec>& specs, F function) {
  auto graph = std::make_unique<Graph>();
  Capture capture(*graph);
  std::vector<Tensor> arguments;
  for (const TensorSpec& spec : specs) arguments.push_back(Graph::tensor_of(graph->add_input(spec)));
  std::vector<Tensor> results;
  isochron::internal::append_results(results, function(arguments));
  for (const Tensor& result : results) graph->outputs().push_back(capture.lift(result));
  capture.finish();
  return graph;
}

/// Names of the nodes' ops, in order.
inline std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node->op->name);
  return names;
}

/// Every pass except `kept`.
inline PassOptions only(std::string_view kept) {
  PassOptions options;
  for (const PassInfo& pass : passes()) {
    if (pass.name != kept) options.disabled.emplace_back(pass.name);
  }
  return options;
}

}  // namespace isochron::graph
