// Copies between tensors of different extents: padding.
#pragma once

#include <string_view>

#include "isochron/core/tensor.h"

namespace isochron::data {

/// Writes `from` (contiguous) to the front of each axis of a contiguous block of `shape` at `to`, and
/// `padding`, rounded to its dtype, to the rest. Throws kShapeMismatch where it does not fit; `name` says
/// which tensor.
void copy_padded(const Tensor& from, const Shape& shape, double padding, std::byte* to,
                 std::string_view name);

}  // namespace isochron::data
