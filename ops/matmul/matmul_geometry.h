// A call of `matmul` as a batch of products of two matrices.
#pragma once

#include <cstdint>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

struct MatmulGeometry {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  // The batch axes (rank 0: a single product), and the strides that give the matrix of a and of b for each
  // batch entry.
  Shape batch;
  Strides a_matrices, b_matrices;
};

/// The batch axes of an operand: all but the last two.
Shape matmul_batch(const Shape& shape);

/// If all batch entries share one matrix b, the rows of all entries become the rows of a single product.
MatmulGeometry matmul_geometry(const graph::KernelRequest& request);

}  // namespace isochron::ops
