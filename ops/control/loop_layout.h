// How the tensors of `while_loop` and `scan` are numbered.
#pragma once

#include <memory>

#include "isochron/graph/ir/graph.h"

namespace isochron::ops {

/// Of `while_loop`: inputs [state..., captured...]; sub-graph inputs [iteration, state..., captured...];
/// outputs [state..., iterations, a stack of each state if bounded].
inline size_t while_states(const graph::Attributes& attributes) {
  return static_cast<size_t>(attributes.get<int64_t>("states"));
}
/// The most iterations; -1: any number.
inline int64_t while_bound(const graph::Attributes& attributes) {
  return attributes.get<int64_t>("max_iterations");
}

/// Of `scan`. Inputs [state..., sequences..., captured...]; the body's [index, state..., slices...,
/// captured...] and outputs [state..., outputs...]; the op's outputs [state..., stacked outputs..., the
/// states before each step, stacked...].
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

/// A row of a sequence.
inline TensorSpec slice_spec(const TensorSpec& sequence) {
  return {sequence.dtype, Shape(sequence.shape.span().subspan(1))};
}

}  // namespace isochron::ops
