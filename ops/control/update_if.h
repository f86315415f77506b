// Conditional updates: an in-place update of many tensors under a condition known only at run time. If the
// condition is false, no data is moved. No second copy of the state is ever made, whereas `cond`
// (ops/control/control.h) would need one for its result.
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/control/control.h"

namespace isochron {

/// Returns `update(state)` if `predicate` (a bool scalar) is true, otherwise `state`; the specs don't change.
/// In a capture the update is a sub-graph planned in the same arena, and the results are written over `state`
/// if nothing else reads it. `update` must take the state from its argument. Not differentiable. Throws
/// kDtypeMismatch if the predicate isn't bool, kInvalidArgument for an empty state, kShapeMismatch if the
/// number or the specs of the results differ from the state's, kUnsupported (assignments inside). If `update`
/// exchanges data between ranks, the predicate must be the same on all ranks.
std::vector<Tensor> update_if(const Tensor& predicate, std::span<const Tensor> state,
                              const LoopFunction& update);

}  // namespace isochron
