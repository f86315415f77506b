// Control flow as ops: a conditional and a loop whose branches and body are sub-graphs, planned inside the
// same arena. The functions may use any tensor from outside; what they use becomes an input of the op.
// Outside a capture they simply run.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

using BranchFunction = std::function<std::vector<Tensor>()>;
using LoopFunction = std::function<std::vector<Tensor>(std::span<const Tensor> state)>;
using LoopCondition = std::function<Tensor(std::span<const Tensor> state)>;

/// `then()` where `predicate` (a bool scalar) holds, else `otherwise()`; only the chosen one runs. Both must
/// give the same number of tensors of the same specs. Throws kShapeMismatch, kDtypeMismatch, kUnsupported
/// (assignments inside).
std::vector<Tensor> cond(const Tensor& predicate, const BranchFunction& then,
                         const BranchFunction& otherwise);
Tensor cond(const Tensor& predicate, const std::function<Tensor()>& then,
            const std::function<Tensor()>& otherwise);

struct WhileOptions {
  /// The loop ends after so many iterations in any case. Needed for reverse mode, which stacks each
  /// iteration's state in the arena (max_iterations x state bytes, only when a gradient is asked for). -1: no
  /// bound, no gradient.
  int64_t max_iterations = -1;
};

/// Repeats `body` on the state while `condition` (a bool scalar) holds. The state keeps its specs throughout.
/// Returns the final state. Throws kShapeMismatch, kDtypeMismatch, kUnsupported (assignments inside, gradient
/// without a bound).
std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopFunction& body,
                               const std::vector<Tensor>& initial, WhileOptions options = {});

}  // namespace isochron
