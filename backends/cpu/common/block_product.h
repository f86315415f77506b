// A product of small blocks that lie in cache, as kernels with products of their own ask for it.
// block_products-inl.h computes it in vectors, bf16_tiles.h in tile registers.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// Numbers along the depth of a product that are multiplied at once, an operand's element: one, or a pair of
/// bf16.
template <typename O>
inline constexpr int64_t kTogether = sizeof(O) == 2 ? 2 : 1;

/// The left operand of a product: elements (row, k) with k = (outer, inner).
template <typename O>
struct Left {
  const O* data;
  int64_t row;  // strides, in numbers
  int64_t inner;
  int64_t outer;
  int64_t inner_count;  // in elements
  int64_t outer_count = 1;
  bool tiles = false;  // multiplied in tile registers: elements of a row and one `outer` lie side by side
};

/// c (rows, columns) = init + a b. Strides are in numbers.
template <typename O>
struct BlockProduct {
  int64_t rows;
  int64_t columns;  // a multiple of the vector's lanes
  Left<O> a;
  const O* b;     // rows of elements; those of bf16 hold the numbers of rows 2 k and 2 k + 1 side by side
  int64_t b_row;  // from one row of elements to the next
  const ComputeType<O>* init;
  int64_t init_row;  // 0: every row begins with the same
  ComputeType<O>* c;
  int64_t c_row;
};

}  // namespace isochron::ops
