// Calls of ops that are defined on f32, some of whose tensors are stored in 16 bits: what mixed precision
// makes of a graph (graph/passes/precision.h). Such a node carries the dtypes of its results as the attribute
// `storage`; its op is asked about it in f32, so that no rule of an op knows of this.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/graph/ir/backend.h"

namespace isochron::graph {

/// The attribute, a vector of dtypes.
inline constexpr std::string_view kStorage = "storage";

/// The attribute of a product that mixed precision leaves in f32, whatever its op's rule says: one of those
/// that an op with the rule kFull is written in.
inline constexpr std::string_view kFullPrecision = "full_precision";

inline bool has_half_storage(const Attributes& attributes) { return attributes.has(kStorage); }

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
std::vector<TensorSpec> infer_with_storage(const OpDef& op, std::span<const TensorSpec> inputs,
                                           const Attributes& attributes);

/// Are tensors of the call stored in 16 bits where the op is defined on f32?
bool has_half_storage(const KernelRequest& request);

/// The kernel of any call: the backend's; where it has none for tensors stored in 16 bits, its f32 kernel
/// between copies of these in the workspace. Throws as Backend::make_kernel.
std::unique_ptr<Kernel> prepare_kernel(const KernelRequest& request);
/// The last of these.
std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request);
/// The tensors of `half_inputs` and `half_outputs`, a bit each, are given to `make` as they are.
std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request, uint32_t half_inputs,
                                            uint32_t half_outputs, KernelFactory make);

}  // namespace isochron::graph
