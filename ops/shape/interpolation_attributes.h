#pragma once

#include <string_view>

#include "isochron/graph/ir/attributes.h"
#include "isochron/ops/shape/interpolation.h"

namespace isochron::ops {

/// The options of a call of `interpolate` or `interpolate_transpose`. Throws kInvalidArgument for options
/// that exclude each other.
ResizeOptions resize_options(const graph::Attributes& attributes, std::string_view where);

}  // namespace isochron::ops
