// How far the element functions may be from the exact result: the bounds that tests hold every instruction
// set to, over the whole domain.
#pragma once

#include <span>

#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// |result - exact| <= max(ulp u, absolute e), where u is the unit in the last place (ULP) of the exact
/// result and e the dtype's epsilon. Functions that cross zero where their terms cancel (sin, cos, the tails
/// of gelu) need the absolute part. Exact results below 1,024 times the smallest normal number may become
/// anything below that, 0 included. Operands that are subnormal may count as 0.
struct ErrorBound {
  double ulp = 0;
  double absolute = 0;
};

struct ElementAccuracy {
  graph::ElementOp op;
  ErrorBound f32;
  ErrorBound f64;
};

/// The functions of one or two float operands whose results are rounded; those that are exact have 0.
/// 16-bit floats are computed in f32 and rounded once. pow, fmod, atan2, tan, the inverse and hyperbolic
/// functions but tanh, lgamma and the f64 erf are the C library's; gelu_grad is stated for a gradient of 1.
std::span<const ElementAccuracy> element_accuracies();
/// Throws kInvalidArgument for an op that has no row there, or another dtype than f32 and f64.
ErrorBound error_bound(graph::ElementOp op, DType dtype);

}  // namespace isochron::ops
