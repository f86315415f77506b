// How the tensors of `while_loop` and `scan` are numbered.
#pragma once

#include <memory>

#include "isochron/graph/ir/graph.h"

namespace isochron::ops {

/// The number of states of a `while_loop`. Its tensors: inputs [state..., captured...]; sub-graph inputs
/// [iteration, state..., captured...]; outputs [state..., iterations, a stack of each state if bounded].
inline size_t while_states(const graph::Attributes& attributes) {
  return static_cast<size_t>(attributes.get<int64_t>("states"));
}
/// The maximum number of iterations; -1 means no bound.
inline int64_t while_bound(const graph::Attributes& attributes) {
  return attributes.get<int64_t>("max_iterations");
}

/// The tensors of `scan`: inputs [state..., sequences..., captured...]; outputs [state..., stacked
/// outputs..., the stacked states before each step...]. The body has inputs [index, state..., slices...,
/// captured...] and outputs [state..., outputs...].
struct ScanLayout {
  explicit ScanLayout(const graph::Attributes& attributes)
      : body(attributes.object<graph::SubGraph>("body")),
        states(static_cast<size_t>(attributes.get<int64_t>("states"))),
        sequences(static_cast<size_t>(attributes.get<int64_t>("sequences"))),
        steps(attributes.get<int64_t>("steps")),
        reverse(attributes.get<bool>("reverse")) {
    outputs = graph().outputs().size() - states;
  }
  const graph::Graph& graph() const { return *body->graph; }
  size_t first_captured() const { return states + sequences; }
  size_t first_saved() const { return states + outputs; }

  std::shared_ptr<const graph::SubGraph> body;
  size_t states;
  size_t sequences;
  size_t outputs;
  int64_t steps;
  bool reverse;
};

/// The spec of one row of a sequence.
inline TensorSpec slice_spec(const TensorSpec& sequence) {
  return {sequence.dtype, Shape(sequence.shape.span().subspan(1))};
}

}  // namespace isochron::ops
