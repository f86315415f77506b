// Functions over short contiguous runs ("tiles") of one dtype: what fused programs are made of.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// dst[i] = op(a[i], b[i], c[i]) for i < n. Unused operands are null. dst may equal any operand of the same
/// size.
using TileFunction = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n);
/// The reduction of n > 0 elements, as double (floats) or int64 bits (others): see TileReduction.
union TileScalar {
  double f;
  int64_t i;
};
using TileReduction = TileScalar (*)(const void* a, int64_t n);

/// The function for operands of `dtype`, or null where the op isn't defined on it. For kCast use `tile_cast`;
/// for kWhere the first operand is bool and `dtype` that of the others.
TileFunction tile_function(graph::ElementOp op, DType dtype);
TileFunction tile_cast(DType from, DType to);
/// Sum, product, maximum or minimum of a run (kMean sums). f32 sums run in vector lanes.
TileReduction tile_reduction(graph::ReduceKind kind, DType dtype);

}  // namespace isochron::ops
