// Calls of ops that are defined on f32, some of whose tensors are stored in 16 bits: what mixed precision
// makes of a graph (graph/precision.h). Such a node carries the dtypes of its results as the attribute
// `stored`; its op is asked about it in f32, so that no rule of an op knows of this.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/graph/op.h"

namespace isochron::graph {

/// The attribute: names of dtypes, one a result, joined by spaces, as "bf16 f32".
inline constexpr std::string_view kStored = "stored";
std::string stored_text(std::span<const DType> results);

inline bool is_stored(const Attributes& attributes) { return attributes.has(kStored); }

/// Is it one of the 16-bit floats?
constexpr bool is_narrow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// The operands as the op's rules know them: f32 for 16-bit floats where the call has the attribute.
std::vector<TensorSpec> defined_inputs(std::span<const TensorSpec> inputs, const Attributes& attributes);

/// What the op says of f32 operands, with the dtypes that the attribute names. Throws as the op's rule, and
/// kInvalidArgument where the attribute names another number of results.
std::vector<TensorSpec> infer_stored(const OpDef& op, std::span<const TensorSpec> inputs,
                                     const Attributes& attributes);

/// The kernel of any call: the op's own; where the call has the attribute, the one that the op has for it, or
/// its f32 kernel between copies of the narrow tensors in its workspace. Throws as the op's preparation.
std::unique_ptr<Kernel> prepare_kernel(const KernelRequest& request);
/// The last of these. The tensors of `narrow_inputs` and `narrow_outputs`, a bit each, are given to the op's
/// preparation as they are.
std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request, uint32_t narrow_inputs = 0,
                                            uint32_t narrow_outputs = 0);

}  // namespace isochron::graph
