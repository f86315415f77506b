#include "isochron/ops/rows/subgraph.h"

#include <unordered_map>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/passes/side_effects.h"

namespace isochron::ops {

using graph::Graph;
using graph::Value;

std::shared_ptr<const graph::AttributeObject> as_attribute(std::unique_ptr<Graph> graph) {
  return std::make_shared<graph::SubGraph>(std::move(graph));
}

namespace {

/// The first collective op in `graph` or its sub-graphs; null if there is none.
const graph::Node* find_collective(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const auto* found =
        graph::find_within(*node, [](const graph::Node& inner) { return inner.op->collective; });
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const graph::AttributeObject> as_loop_attribute(std::unique_ptr<Graph> graph,
                                                                std::string_view where) {
  const graph::Node* const found = find_collective(*graph);
  require(found == nullptr, ErrorCode::kUnsupported, where,
          "contains '{}', in which all ranks take part, while each runs this as often as its own numbers "
          "say; move "
          "it before or behind",
          found != nullptr ? found->op->name : "");
  return as_attribute(std::move(graph));
}

std::vector<Tensor> inline_graph(const Graph& graph, std::span<const Tensor> inputs) {
  std::unordered_map<const Value*, Tensor> to;
  for (size_t i = 0; i < inputs.size(); ++i) to[graph.inputs()[i]] = inputs[i];
  for (const Value* value : graph.bound()) to[value] = value->bound;
  for (const auto& node : graph.nodes()) {
    std::vector<Tensor> operands;
    for (const Value* input : node->inputs) operands.push_back(to.at(input));
    const std::vector<Tensor> results = graph::apply(*node->op, operands, node->attributes);
    for (size_t i = 0; i < results.size(); ++i) to[node->outputs[i]] = results[i];
  }
  std::vector<Tensor> outputs;
  for (const Value* output : graph.outputs()) outputs.push_back(to.at(output));
  return outputs;
}

TensorSpec stacked_spec(const TensorSpec& spec, int64_t rows, std::string_view where) {
  require(spec.shape.rank() < kMaxRank, ErrorCode::kUnsupported, where,
          "what a loop stacks has at most {} axes, got {}", kMaxRank - 1, spec.str());
  Shape shape{rows};
  for (const int64_t extent : spec.shape) shape.push_back(extent);
  return {spec.dtype, shape};
}

double flops_of(const Graph& graph) {
  double total = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op->flops) total += node->op->flops({*node->op, node->input_specs(), node->attributes});
  }
  return total;
}

void set_outputs(graph::Capture& capture, std::span<const Tensor> results, std::string_view where) {
  for (const Tensor& result : results) {
    require(result.defined(), ErrorCode::kInvalidArgument, where, "result {} of a sub-graph is undefined",
            capture.graph().outputs().size());
    capture.graph().outputs().push_back(capture.lift(result));
  }
}

std::vector<Value*> outer_values(const graph::Capture& capture) {
  std::vector<Value*> outer;
  for (const auto& [value, input] : capture.captured()) outer.push_back(value);
  return outer;
}

}  // namespace isochron::ops
