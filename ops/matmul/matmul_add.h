// A matrix product with what is added to it and a relu behind: what a pass for devices makes of a dense layer
// or a residual sum (graph/passes/epilogues.cc), so that a library's product can do it in one go.
#pragma once

#include <optional>
#include <span>

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

/// Which inputs of a call of `matmul_add` are added: one of the result's shape, one number a column.
struct MatmulTerms {
  std::optional<size_t> matrix, vector;
};
/// Throws kShapeMismatch for an input that is neither, or the second of its kind.
MatmulTerms matmul_terms(const graph::OpDef& op, std::span<const TensorSpec> inputs, const Shape& result);

}  // namespace isochron::ops
