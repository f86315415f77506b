// What a call of `matmul` comes to: products of two matrices, many where the operands have leading axes.
#pragma once

#include <cstdint>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

struct MatmulGeometry {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  // Of the batch; which matrix of a and of b each of its entries takes. Rank 0: one product.
  Shape batch;
  Strides a_matrices, b_matrices;
};

/// The axes before the last two: of the products.
Shape matmul_batch(const Shape& shape);

/// One right-hand side for all: rows of all batch entries become rows of one product.
MatmulGeometry matmul_geometry(const graph::KernelRequest& request);

}  // namespace isochron::ops
