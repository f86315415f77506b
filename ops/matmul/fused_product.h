// A product with the element ops behind it in one node: what a pass for devices makes of a dense layer, a
// residual sum, an activation behind a convolution or the gradient of one (graph/passes/epilogues.cc).
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// A call of `fused_product`. Its inputs are the two factors, then what the program reads but for numbers and
/// its first operand, which is the product.
struct FusedProduct {
  explicit FusedProduct(const graph::OpCall& call);
  explicit FusedProduct(const graph::KernelRequest& request)
      : FusedProduct(graph::OpCall{request.op, request.inputs, request.attributes}) {}

  const graph::OpDef& product;   // `matmul`, `convolution` or `convolution_input_gradient`
  graph::Attributes attributes;  // of the product
  std::shared_ptr<const graph::ElementProgram> program;

  /// The product itself, as it is stored where nothing takes its elements at once.
  const TensorSpec& spec() const { return program->operands[0].spec; }
  /// The output that is the product itself; -1: none.
  int product_output() const;
  /// The call of the product alone within a call of the whole; valid as long as both.
  graph::KernelRequest product_request(const graph::KernelRequest& request) const;
};
inline constexpr size_t kProductFactors = 2;

}  // namespace isochron::ops
