// A product and the element ops that follow it, in one node. A graph pass for devices
// (graph/passes/epilogues.cc) creates such nodes from dense layers, residual sums, and activations after
// convolutions and their gradients.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// A call of `fused_product`. Its inputs are the two factors, then the tensors that the element program
/// reads. The program's first operand is the product itself; immediate operands (numbers) aren't inputs.
struct FusedProduct {
  explicit FusedProduct(const graph::OpCall& call);
  explicit FusedProduct(const graph::KernelRequest& request)
      : FusedProduct(graph::OpCall{request.op, request.inputs, request.attributes}) {}

  const graph::OpDef& product;   // `matmul`, `convolution` or `convolution_input_gradient`
  graph::Attributes attributes;  // attributes of the product
  std::shared_ptr<const graph::ElementProgram> program;

  /// The spec of the product itself, used when the product has to be stored.
  const TensorSpec& spec() const { return program->operands[0].spec; }
  /// The output that is the product itself; -1: none.
  int product_output() const;
  /// The request for the product alone, derived from a request for the fused op; valid as long as this object
  /// and `request` are.
  graph::KernelRequest product_request(const graph::KernelRequest& request) const;
};
inline constexpr size_t kProductFactors = 2;

}  // namespace isochron::ops
