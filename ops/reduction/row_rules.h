// Checks and shape rules for ops that work on the rows of their first input.
#pragma once

#include "isochron/ops/rows/rules.h"

namespace isochron::ops {

/// Throws unless input 0 is f32 or f64 (kDtypeMismatch) and has rows, each with at least one element
/// (kShapeMismatch).
inline void check_rows(const OpCall& call) {
  const TensorSpec& x = call.inputs[0];
  require(x.dtype == DType::kF32 || x.dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "input 0 must be f32 or f64, got {}; cast it", x.str());
  require_min_rank(call, 0, 1);
  require(x.shape.back() > 0, ErrorCode::kShapeMismatch, call.op.name, "{} has rows without elements",
          x.str());
}

/// (..., C) -> (...).
inline Shape without_last(const Shape& shape) {
  return Shape(shape.span().first(static_cast<size_t>(shape.rank() - 1)));
}

}  // namespace isochron::ops
