// Calls of ops that are defined on f32 but have some tensors stored in 16 bits. Mixed precision creates them
// (graph/passes/precision.h). Such a node has the dtypes of its results in the attribute `storage`. The op's
// rules see f32, so that none of them needs to know about 16-bit storage.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/graph/ir/backend.h"

namespace isochron::graph {

/// The name of this attribute, a vector of dtypes.
inline constexpr std::string_view kStorage = "storage";

/// The attribute of a product that mixed precision leaves in f32 whatever its op's rule says, because the
/// product is part of the decomposition of an op with the rule kFull.
inline constexpr std::string_view kFullPrecision = "full_precision";

inline bool has_half_storage(const Attributes& attributes) { return attributes.has(kStorage); }

/// The operands as the op's rules see them: f32 instead of 16-bit floats if the call has the attribute.
std::vector<TensorSpec> defined_inputs(std::span<const TensorSpec> inputs, const Attributes& attributes);

/// The call of a request as the op's rules see it.
struct DefinedCall {
  explicit DefinedCall(const KernelRequest& request)
      : inputs(defined_inputs(request.inputs, request.attributes)),
        call{request.op, inputs, request.attributes} {}
  DefinedCall(const DefinedCall&) = delete;
  DefinedCall& operator=(const DefinedCall&) = delete;

  std::vector<TensorSpec> inputs;
  OpCall call;
};

/// What the op infers for f32 operands, with the dtypes that the attribute names. Throws like the op's rule,
/// and kInvalidArgument if the attribute names a different number of results.
std::vector<TensorSpec> infer_with_storage(const OpDef& op, std::span<const TensorSpec> inputs,
                                           const Attributes& attributes);

/// Whether tensors of the call are stored in 16 bits although the op is defined on f32.
bool has_half_storage(const KernelRequest& request);

/// The kernel of any call: the backend's or, if it has none for tensors stored in 16 bits, its f32 kernel
/// between copies of these tensors in the workspace. Throws like Backend::make_kernel.
std::unique_ptr<Kernel> prepare_kernel(const KernelRequest& request);
/// Always makes the f32 kernel between copies.
std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request);
/// The tensors in the bit masks `half_inputs` and `half_outputs` (one bit per tensor) are passed to `make`
/// without conversion.
std::unique_ptr<Kernel> prepare_through_f32(const KernelRequest& request, uint32_t half_inputs,
                                            uint32_t half_outputs, KernelFactory make);

}  // namespace isochron::graph
