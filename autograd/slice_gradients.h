// Combines the gradients of a tensor's slices into the tensor's gradient, for the backward walk
// (autograd.cc).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/ir/op.h"

namespace isochron {

/// The gradient of a slice that has the elements [start, end()) of one axis and all elements of the other
/// axes.
struct SliceGradient {
  int axis;
  int64_t start;
  Tensor gradient;
  int64_t end() const { return start + gradient.shape()[axis]; }
};

/// The slice gradient for a call of the op `slice` whose result has the gradient output_gradients[0]. nullopt
/// for other ops, for steps other than 1, and unless exactly one axis is cut.
std::optional<SliceGradient> slice_gradient(const graph::OpDef& op, const graph::Attributes& attributes,
                                            std::span<const Tensor> inputs,
                                            std::span<const Tensor> output_gradients);

/// The gradient of a tensor of shape `whole`, given the gradients of one or more of its slices. Slices that
/// don't overlap, such as the steps of an unrolled loop, are concatenated. Extending each one to the whole
/// shape and adding them would take time quadratic in their number.
Tensor joined(std::vector<SliceGradient> slices, const Shape& whole);

}  // namespace isochron
