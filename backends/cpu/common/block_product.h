// Describes a product of small blocks in cache, for kernels that compute their own products.
// block_products-inl.h computes it with vectors, bf16_tiles.h with tile registers.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// The number of numbers per element of an operand. The numbers of an element are consecutive along the
/// product's depth and are multiplied at once: one number, or a pair of bf16.
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
  bool tiles = false;  // use tile registers; then inner elements must be contiguous
};

/// c (rows, columns) = init + a b. Strides are in numbers.
template <typename O>
struct BlockProduct {
  int64_t rows;
  int64_t columns;  // a multiple of the vector's lanes
  Left<O> a;
  const O* b;     // rows of elements; bf16: row k holds pairs from rows 2 k and 2 k + 1
  int64_t b_row;  // from one row of elements to the next
  const ComputeType<O>* init;
  int64_t init_row;  // 0: all rows start from the same row of init
  ComputeType<O>* c;
  int64_t c_row;
};

}  // namespace isochron::ops
