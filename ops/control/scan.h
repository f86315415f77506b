// scan: applies a body along the leading axis of sequences, as one op with a sub-graph planned in the same
// arena. The body may use any tensor from outside. Outside a capture the body is called directly, step by
// step.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The result of one step of a scan: the next state, whose specs must not change, and the outputs to stack.
struct ScanStep {
  std::vector<Tensor> state;
  std::vector<Tensor> outputs = {};
};
/// `slices`: row t of each sequence, without the leading axis.
using ScanBody = std::function<ScanStep(std::span<const Tensor> state, std::span<const Tensor> slices)>;

struct ScanOptions {
  /// Runs from the last row to the first; output t still belongs to row t.
  bool reverse = false;
  /// The number of steps; -1 means the leading extent of the sequences. Required if there are no sequences.
  int64_t steps = -1;
};

struct ScanResult {
  std::vector<Tensor> state;    // after the last step
  std::vector<Tensor> outputs;  // each (steps, ...)
};

/// Runs `body` on each row of `sequences`, (steps, ...); the list may be empty. Gradients of any order run
/// the body again on the state saved before each step (steps x state bytes, only if a gradient is requested).
/// Throws kShapeMismatch (sequences of different lengths, a state whose spec changes), kDtypeMismatch,
/// kInvalidArgument (an undefined tensor, an unknown number of steps), kUnsupported (assignments inside).
ScanResult scan(const ScanBody& body, const std::vector<Tensor>& initial,
                const std::vector<Tensor>& sequences, ScanOptions options = {});

}  // namespace isochron
