// Replaces ops that have no kernel in a backend with other ops.
#include <algorithm>
#include <unordered_map>

#include "isochron/graph/capture/capture.h"
#include "isochron/graph/ir/backend.h"
#include "isochron/graph/ir/decomposition.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/passes/passes.h"

namespace isochron::graph {
namespace {

bool needs_decomposition(const Node& node, const Backend& backend) {
  return node.op->decompose != nullptr && node.op->fusion != FusionClass::kView && !backend.runs(*node.op);
}

/// Appends the decomposition of `node` to the graph and replaces its outputs.
void decompose_node(Graph& graph, const Node& node, Rewriter& rewriter) {
  const size_t before = graph.nodes().size();
  const std::vector<TensorSpec> specs = node.input_specs();
  std::vector<Tensor> inputs;
  for (Value* input : node.inputs) inputs.push_back(Graph::tensor_of(input));
  Capture capture(graph);
  std::vector<TensorSpec> outputs;
  for (const Value* output : node.outputs) outputs.push_back(output->spec);
  const std::vector<Tensor> results = decomposed({*node.op, specs, node.attributes}, inputs, outputs);
  for (size_t i = before; i < graph.nodes().size(); ++i) {
    Node& made = *graph.nodes()[i];
    made.scope = fmt::format("{}{}/", node.scope, node.op->name);
    made.checkpoint = node.checkpoint;
    if (node.op->precision.rule == PrecisionRule::kFull && made.op->precision.rule == PrecisionRule::kLow)
      made.attributes.set(kFullPrecision, true);
  }
  for (size_t o = 0; o < results.size(); ++o) {
    rewriter.replace(node.outputs[o], capture.lift(results[o]));
  }
}

}  // namespace

void decompose(Graph& graph, const Backend& backend) {
  const auto needed = [&backend](const auto& node) { return needs_decomposition(*node, backend); };
  while (std::ranges::any_of(graph.nodes(), needed)) {
    std::unordered_map<const Node*, size_t> rank;
    const size_t count = graph.nodes().size();
    for (size_t i = 0; i < count; ++i) rank[graph.nodes()[i].get()] = i;
    Rewriter rewriter(graph);
    std::vector<bool> keep(count, true);
    for (size_t i = 0; i < count; ++i) {
      Node& node = *graph.nodes()[i];
      rewriter.update_inputs(node);
      if (!needs_decomposition(node, backend)) continue;
      const size_t first = graph.nodes().size();
      decompose_node(graph, node, rewriter);
      for (size_t n = first; n < graph.nodes().size(); ++n) rank[graph.nodes()[n].get()] = i;
      keep[i] = false;
    }
    rewriter.finish();
    keep.resize(graph.nodes().size(), true);
    graph.retain_nodes(keep);
    sort_nodes(graph, rank);
  }
  graph.check();
}

}  // namespace isochron::graph
