// With a residual connection, the gradient of a layer norm's input is a sum: the gradient through the layer
// norm and the gradient through the connection around it. The layer norm's gradient kernel adds the second
// gradient when it stores the first.
#include "isochron/graph/passes/passes.h"
#include "isochron/graph/passes/replacement.h"

namespace isochron::graph {
namespace {

constexpr size_t kPlainInputs = 5;  // x, mean, scale, dy and gamma

/// The index of the operand of `sum` that is a layer norm's gradient and can absorb the other operand; -1 if
/// there is none. The other operand must be computed before that gradient, so it can't depend on the
/// gradients of gamma and beta.
int gradient_of(const Node& sum, const std::unordered_map<const Value*, int>& uses,
                const Replacement& replacement) {
  if (sum.op->name != "add" || !(sum.inputs[0]->spec == sum.inputs[1]->spec)) return -1;
  for (int i = 0; i < 2; ++i) {
    const Value* value = sum.inputs[static_cast<size_t>(i)];
    const Node* node = value->producer;
    if (node == nullptr || node->op->name != "layer_norm_gradient" || value->index != 0 ||
        node->inputs.size() != kPlainInputs || uses.at(value) != 1)
      continue;
    const Node* other = sum.inputs[static_cast<size_t>(1 - i)]->producer;
    if (other == nullptr || replacement.rank(*other) < replacement.rank(*node)) return i;
  }
  return -1;
}

}  // namespace

void absorb_residuals(Graph& graph) {
  const auto& nodes = graph.nodes();
  const size_t before = nodes.size();
  const std::unordered_map<const Value*, int> uses = graph.use_counts();
  Replacement replacement(graph);
  for (size_t i = 0; i < before; ++i) {
    const Node& sum = *nodes[i];
    const int own = gradient_of(sum, uses, replacement);
    if (own < 0) continue;
    const Node& gradient = *sum.inputs[static_cast<size_t>(own)]->producer;
    std::vector<Value*> inputs = gradient.inputs;
    inputs.push_back(sum.inputs[static_cast<size_t>(1 - own)]);
    const Node& node =
        replacement.add(gradient, gradient.op->name, inputs, gradient.attributes, gradient.scope);
    replacement.drop(gradient);
    replacement.drop(sum);
    replacement.values.replace(sum.outputs[0], node.outputs[0]);
    for (size_t o = 1; o < gradient.outputs.size(); ++o)
      replacement.values.replace(gradient.outputs[o], node.outputs[o]);
  }
  replacement.finish();
}

}  // namespace isochron::graph
