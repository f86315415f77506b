// scan: a body carried over the leading axis of sequences, as one op with a sub-graph planned inside the same
// arena. The body may use any tensor from outside. Outside a capture it simply runs, step by step.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// What a step of a scan gives: the next state, with unchanged specs, and what to stack.
struct ScanStep {
  std::vector<Tensor> state;
  std::vector<Tensor> outputs = {};
};
/// `slices`: row t of each sequence, without the leading axis.
using ScanBody = std::function<ScanStep(std::span<const Tensor> state, std::span<const Tensor> slices)>;

struct ScanOptions {
  /// From the last row to the first; output t still belongs to row t.
  bool reverse = false;
  /// The number of steps; -1: the sequences' leading extent. Needed where there are no sequences.
  int64_t steps = -1;
};

struct ScanResult {
  std::vector<Tensor> state;    // after the last step
  std::vector<Tensor> outputs;  // each (steps, ...)
};

/// Runs `body` on each row of `sequences`, (steps, ...), which may be none. Gradients of any order run the
/// body once more on the state saved before each step (steps x state bytes, only where a gradient is asked
/// for). Throws kShapeMismatch (sequences of other lengths, a state that changes its spec),
/// kDtypeMismatch, kInvalidArgument (an undefined tensor, no number of steps), kUnsupported (assignments
/// inside).
ScanResult scan(const ScanBody& body, const std::vector<Tensor>& initial,
                const std::vector<Tensor>& sequences, ScanOptions options = {});

}  // namespace isochron
