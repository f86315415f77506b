// Padding with elements of the tensor itself; `pad` in slicing.h pads with a constant.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Where the elements beyond the ends of an axis come from. Example: abcd padded by two elements on either
/// side.
enum class PaddingMode {
  kReflect,    // cb abcd cb: mirrored about the last element, which isn't repeated
  kReplicate,  // aa abcd dd: the element at the end, repeated
  kCircular,   // cd abcd ab: from the other end
};

/// Adds before[i] elements before axis i of x and after[i] after it, by `mode` (PyTorch's
/// pad(mode="reflect"), "replicate", "circular"; NumPy's "reflect", "edge", "wrap"). Any dtype and any axes;
/// axes are padded one after the other, which also defines the corners. The gradient of an element is the sum
/// over all places that it was copied to. Throws kInvalidArgument unless both lists have one entry >= 0 per
/// axis; kShapeMismatch if the padding on either side is too large: `kReflect` allows less than the axis'
/// extent, `kCircular` at most the extent, `kReplicate` any number for an axis that isn't empty.
Tensor pad(const Tensor& x, const Dims& before, const Dims& after, PaddingMode mode);

}  // namespace isochron
