// What a library's product can do to its sums before it stores them: cuBLASLt adds a matrix and a bias, and
// takes the larger of that and 0.
#pragma once

#include <cstddef>
#include <optional>

#include "isochron/graph/ir/element_op.h"

namespace isochron::ops {

/// Inputs of a call of `fused_product` that are added.
struct LibraryEpilogue {
  std::optional<size_t> matrix, vector;  // of the result's shape; a number a column
  bool relu = false;
};
/// That of its program, if it is one: sums in f32, of what is stored as the result is.
std::optional<LibraryEpilogue> library_epilogue(const graph::ElementProgram& program);

}  // namespace isochron::ops
