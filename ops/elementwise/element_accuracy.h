// How far the element functions may be from the exact result: the bounds that tests hold every instruction
// set to, over the whole domain.
#pragma once

#include <span>

#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// |result - exact| <= max(ulp u, absolute e), where u is the unit in the last place (ULP) of the exact
/// result and e the dtype's epsilon. Functions that cross zero where their terms cancel (sin, cos, the tails
/// of gelu) need the absolute part. If the magnitude of the exact result is below 1,024 times the smallest
/// normal number, any result below that limit is allowed, including 0. Subnormal operands may count as 0.
struct ErrorBound {
  double ulp = 0;
  double absolute = 0;
};

struct ElementAccuracy {
  graph::ElementOp op;
  ErrorBound f32;
  ErrorBound f64;
};

/// The functions of one or two float operands; functions with exact results have the bound 0. 16-bit floats
/// are computed in f32 and rounded once. pow, fmod, atan2, tan, the inverse trigonometric functions, the
/// hyperbolic functions except tanh, lgamma and the f64 erf call the C library. The bound of gelu_grad is for
/// an incoming gradient of 1.
std::span<const ElementAccuracy> element_accuracies();
/// Throws kInvalidArgument for an op without a row in this table, and for dtypes other than f32 and f64.
ErrorBound error_bound(graph::ElementOp op, DType dtype);

}  // namespace isochron::ops
