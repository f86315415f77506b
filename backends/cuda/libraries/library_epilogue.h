// The epilogue of a library's matrix product, applied to the sums before they are stored: cuBLASLt adds a
// matrix and a bias and applies a relu.
#pragma once

#include <cstddef>
#include <optional>

#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// The inputs of a call of `fused_product` that are added to the product.
struct LibraryEpilogue {
  std::optional<size_t> matrix, vector;  // matrix: the result's shape; vector: one number per column
  bool relu = false;
};
/// The epilogue that `program` describes, if it is one: sums in f32 of terms that are stored in the result's
/// dtype.
std::optional<LibraryEpilogue> library_epilogue(const graph::ElementProgram& program);

}  // namespace isochron::ops
