// The gradient of a tensor from those of its slices, for the backward walk (autograd.cc).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/ir/op.h"

namespace isochron {

/// The gradient of a slice of a tensor: that of elements [start, start + extent) of one axis, all of the
/// others.
struct SliceGradient {
  int axis;
  int64_t start;
  Tensor gradient;
  int64_t end() const { return start + gradient.shape()[axis]; }
};

/// That of a call of the op `slice`, whose result has the gradient; none for another op, and unless the
/// elements of one axis follow each other and the other axes are whole.
std::optional<SliceGradient> slice_gradient(const graph::OpDef& op, const graph::Attributes& attributes,
                                            std::span<const Tensor> inputs,
                                            std::span<const Tensor> output_gradients);

/// The gradient of a tensor of shape `whole` from those of one or more of its slices. Slices that don't
/// overlap, such as the steps of an unrolled loop, are joined by one copy: if each were extended to the whole
/// tensor and added, the time would grow with the square of their number.
Tensor joined(std::vector<SliceGradient> slices, const Shape& whole);

}  // namespace isochron
