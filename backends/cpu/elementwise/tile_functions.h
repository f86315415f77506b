// Functions on tiles: short contiguous runs of elements of one dtype. Element programs run as sequences of
// these functions.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// dst[i] = op(a[i], b[i], c[i]) for i < n. Unused operands are null. dst may equal any operand of the same
/// size.
using TileFunction = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n);
/// The result of a TileReduction: `f` for floats, `i` for other dtypes.
union TileScalar {
  double f;
  int64_t i;
};
using TileReduction = TileScalar (*)(const void* a, int64_t n);

/// The function for operands of `dtype`, or null if the op isn't defined for it. For kCast use `tile_cast`.
/// For kWhere the first operand is bool, and `dtype` is the dtype of the others.
TileFunction tile_function(graph::ElementOp op, DType dtype);
TileFunction tile_cast(DType from, DType to);
/// Sum, product, maximum or minimum of a run (kMean sums). f32 sums run in vector lanes.
TileReduction tile_reduction(graph::ReduceKind kind, DType dtype);

}  // namespace isochron::ops
