// Padding by elements of the tensor itself; `pad` in slicing.h adds a constant.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Where the elements beyond the end of an axis come from. abcd with two elements before and after:
enum class PaddingMode {
  kReflect,    // cb abcd cb: mirrored about the last element, which isn't repeated
  kReplicate,  // aa abcd dd: the last element, again and again
  kCircular,   // cd abcd ab: from the other end
};

/// Adds before[i] elements before axis i of x and after[i] after it, by `mode` (PyTorch's
/// pad(mode="reflect"), "replicate", "circular"; NumPy's "reflect", "edge", "wrap"). Any dtype and any axes;
/// corners are padded along one axis after the other. The gradient of an element is the sum over all places
/// that it was copied to. Throws kInvalidArgument unless both lists have one entry >= 0 per axis;
/// kShapeMismatch for more elements than the axis can give: `kReflect` adds fewer than its extent on either
/// side, `kCircular` at most as many, `kReplicate` any number to an axis that isn't empty.
Tensor pad(const Tensor& x, const Dims& before, const Dims& after, PaddingMode mode);

}  // namespace isochron
