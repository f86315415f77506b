// Replaces values of a graph with other values.
#pragma once

#include <unordered_map>

#include "isochron/graph/ir/graph.h"

namespace isochron::graph {

/// Records replacements during a forward sweep and applies them to everything that follows.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}
  /// A value that replaces the result of a checkpointed part becomes the part's result.
  void replace(Value* from, Value* to) {
    Value* const now = replaced_[from] = resolve(to);
    if (from->producer && from->producer->checkpoint_result && now->producer)
      now->producer->checkpoint_result = true;
  }
  Value* resolve(Value* value) const {
    const auto found = replaced_.find(value);
    return found == replaced_.end() ? value : found->second;
  }
  void update_inputs(Node& node) const {
    for (Value*& input : node.inputs) input = resolve(input);
  }
  /// Applies the replacements to outputs and updates.
  void finish() {
    for (Value*& output : graph_.outputs()) output = resolve(output);
    for (Update& update : graph_.updates()) update.value = resolve(update.value);
  }

 private:
  Graph& graph_;
  std::unordered_map<Value*, Value*> replaced_;
};

}  // namespace isochron::graph
