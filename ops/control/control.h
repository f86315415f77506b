// Control-flow ops: a conditional and a loop whose branches and body are sub-graphs, planned in the same
// arena. The functions may use any tensor from outside; each tensor they use becomes an input of the op.
// Outside a capture the functions are called directly.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

using BranchFunction = std::function<std::vector<Tensor>()>;
using LoopFunction = std::function<std::vector<Tensor>(std::span<const Tensor> state)>;
using LoopCondition = std::function<Tensor(std::span<const Tensor> state)>;

/// Returns `then()` if `predicate` (a bool scalar) is true, otherwise `otherwise()`; only the chosen function
/// runs. Both must return the same number of tensors with the same specs. Throws kShapeMismatch,
/// kDtypeMismatch, kUnsupported (assignments inside).
std::vector<Tensor> cond(const Tensor& predicate, const BranchFunction& then,
                         const BranchFunction& otherwise);
Tensor cond(const Tensor& predicate, const std::function<Tensor()>& then,
            const std::function<Tensor()>& otherwise);

struct WhileOptions {
  /// The loop ends after at most this many iterations. Reverse mode needs this bound: it stacks the state of
  /// each iteration in the arena (max_iterations x state bytes, only if a gradient is requested). -1: no
  /// bound, and no gradient.
  int64_t max_iterations = -1;
};

/// Applies `body` to the state as long as `condition` (a bool scalar) is true, and returns the final state.
/// The specs of the state must not change. Throws kInvalidArgument (an empty state, an undefined tensor,
/// max_iterations < -1), kShapeMismatch, kDtypeMismatch, kUnsupported (assignments inside, a gradient without
/// a bound).
std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopFunction& body,
                               const std::vector<Tensor>& initial, WhileOptions options = {});

}  // namespace isochron
