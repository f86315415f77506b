// Mixed precision: which tensors of a captured step are stored in 16 bits, decided on the traced graph with
// its gradients, after fusion. Variables stay f32 and are cast once a step; sums run in f32 everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "isochron/graph/ir/graph.h"

namespace isochron {

/// In what a captured function computes. The mixed policies store operands and results of matrix products,
/// convolutions, recurrent layers and attention in 16 bits, and what lies between two of these; softmax,
/// losses, statistics, reductions, gradients of variables and the function's results stay f32. f16 holds
/// numbers up to 65,504 only: gradients want a loss scale. kMixedFp8 is kMixedBf16 but for dense layers,
/// whose products and their gradients are of factors rounded to 8 bits (ops/elementwise/float8.h) where the
/// function itself calls them; those in bodies of loops and conditionals stay as they are. kTf32 stores f32,
/// and on a CUDA device rounds the factors of matrix products and convolutions to 10 bits of fraction
/// (relative error up to 2^-11 a factor); for a CPU, which has no units for it, it is refused.
enum class Precision : uint8_t { kF32, kMixedBf16, kMixedF16, kMixedFp8, kTf32 };

/// "f32", "mixed_bf16", "mixed_f16", "mixed_fp8", "tf32".
std::string_view precision_name(Precision precision);
/// The inverse. Throws kInvalidArgument listing the names.
Precision parse_precision(std::string_view name);
/// All names, in order.
std::vector<std::string> precision_names();

namespace graph {

/// While it lives, this thread traces a function that is to compute in `precision`.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  Precision before_;
};
/// In what the function that is being traced is to compute, as far as layers must know before the passes do;
/// kF32 outside of one, and in bodies of loops and conditionals.
Precision traced_precision();

/// Casts to and from the policy's 16-bit type where the rows (OpDef::precision) want them; programs of fused
/// ops cast where they read and write. Subgraphs of loops and conditionals stay f32. Does nothing for kF32
/// and kTf32.
void cast_to_precision(Graph& graph, Precision precision);

/// Of the tensors that exist when output 0 is computed (the loss of a train step), the bytes of those that
/// are read later on and depend on the batch: what the backward pass keeps of the forward pass, its input
/// included. 0 for a graph without outputs.
size_t activation_bytes(const Graph& graph);

}  // namespace graph
}  // namespace isochron
