// Calls of ops that are defined on f32, some of whose tensors are stored in 16 bits: what mixed precision
// makes of a graph (graph/precision.h). Such a node carries the dtypes of its results as the attribute
// `stored`; its op is asked about it in f32, so that no rule of an op knows of this.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/graph/backend.h"

namespace isochron::graph {

/// The attribute: names of dtypes, one a result, joined by spaces, as "bf16 f32".
inline constexpr std::string_view kStored = "stored";
std::string stored_text(std::span<const DType> results);

inline bool is_stored(const Attributes& attributes) { return attributes.has(kStored); }

/// Is it one of the 16-bit floats?
constexpr bool is_narrow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

/// The operands as the op's rules know them: f32 for 16-bit floats where the call has the attribute.
std::vector<TensorSpec> defined_inputs(std::span<const TensorSpec> inputs, const Attributes& attributes);

/// The call of a request as the op's rules know it.
struct DefinedCall {
  explicit DefinedCall(const KernelRequest& request)
      : inputs(defined_inputs(request.inputs, request.attributes)),
        call{request.op, inputs, request.attributes} {}
  DefinedCall(const DefinedCall&) = delete;
  DefinedCall& operator=(const DefinedCall&) = delete;

  std::vector<TensorSpec> inputs;
  OpCall call;
};

/// What the op says of f32 operands, with the dtypes that the attribute names. Throws as the op's rule, and
/// kInvalidArgument where the attribute names another number of results.
std::vector<TensorSpec> infer_stored(const OpDef& op, std::span<const TensorSpec> inputs,
                                     const Attributes& attributes);

/// Are tensors of the call stored in 16 bits where the op is defined on f32?
bool is_stored(const KernelRequest& request);

/// The kernel of any call: the backend's; where it has none for tensors stored in 16 bits, its f32 kernel
/// between copies of these in the workspace. Throws as Backend::make_kernel.
std::unique_ptr<Kernel> prepare_kernel(const KernelRequest& request);
/// The last of these.
std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request);
/// The tensors of `narrow_inputs` and `narrow_outputs`, a bit each, are given to `make` as they are.
std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request, uint32_t narrow_inputs,
                                            uint32_t narrow_outputs, KernelFactory make);

}  // namespace isochron::graph
