// Mixed precision: decides which tensors of a captured step are stored in 16 bits. It works on the traced
// graph, including gradients, after fusion. Variables stay f32 and are cast once per step; sums always run in
// f32.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "isochron/graph/ir/graph.h"

namespace isochron {

/// Compute precision of a captured function. The mixed policies store operands and results of matrix
/// products, convolutions, recurrent layers and attention in 16 bits, and also tensors that only pass between
/// two such ops. Softmax, losses, statistics, reductions, gradients of variables and the function's results
/// stay f32. f16 represents magnitudes up to 65,504 only, so use loss scaling with it. kMixedFp8 is
/// kMixedBf16, except that the matrix products of dense layers, and those of their gradients, round both
/// operands to 8 bits (ops/elementwise/float8.h). Products in bodies of loops and conditionals aren't rounded
/// to 8 bits. kTf32 stores f32; on a CUDA device the operands of matrix products and convolutions are rounded
/// to a 10-bit mantissa (relative error up to 2^-11 per operand). CPUs have no TF32 units, so for a CPU it
/// throws kUnsupported.
enum class Precision : uint8_t { kF32, kMixedBf16, kMixedF16, kMixedFp8, kTf32 };

/// "f32", "mixed_bf16", "mixed_f16", "mixed_fp8", "tf32".
std::string_view precision_name(Precision precision);
/// The inverse. Throws kInvalidArgument listing the names.
Precision parse_precision(std::string_view name);
/// All names, in order.
std::vector<std::string> precision_names();

namespace graph {

/// While it lives, this thread traces a function that will compute in `precision`.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  Precision before_;
};
/// The precision of the function being traced, for layers that must know it before the passes run; kF32
/// outside a traced function and in the bodies of loops and conditionals.
Precision traced_precision();

/// Inserts casts to and from the policy's 16-bit type as the rows (OpDef::precision) require; programs of
/// fused ops cast when they read and write. Subgraphs of loops and conditionals stay f32. Does nothing for
/// kF32 and kTf32.
void cast_to_precision(Graph& graph, Precision precision);

/// The bytes that the forward pass keeps for the backward pass, including the batch: the total size of all
/// tensors that depend on the batch, exist when output 0 (the loss of a train step) is computed, and are read
/// later. 0 for a graph without outputs.
size_t activation_bytes(const Graph& graph);

}  // namespace graph
}  // namespace isochron
