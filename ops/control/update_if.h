// State that changes only sometimes: an update of many tensors under a condition known at run time, made in
// place. Where the condition doesn't hold nothing moves, and no second copy of the state is ever made, which
// `cond` (ops/control/control.h) would need for its result.
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/control/control.h"

namespace isochron {

/// `update(state)` where `predicate` (a bool scalar) holds, else `state`; specs stay. In a capture the update
/// is a sub-graph planned in the same arena, and the results are written over `state` where nobody else reads
/// it. `update` must take the state from its argument. Not differentiable. Throws kDtypeMismatch for another
/// predicate, kInvalidArgument for an empty state, kShapeMismatch where the update's results differ from the
/// state in number or spec, kUnsupported (assignments inside). Where `update` exchanges anything between
/// ranks, the predicate must be the same on all of them.
std::vector<Tensor> update_if(const Tensor& predicate, std::span<const Tensor> state,
                              const LoopFunction& update);

}  // namespace isochron
