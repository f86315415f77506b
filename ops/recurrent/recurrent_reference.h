// The definitions of the recurrent ops on doubles, for tests; and their samples, whose saved values come from
// the definition.
#pragma once

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

std::vector<std::vector<double>> recurrent_reference(const graph::OpCall& call,
                                                     std::span<const TensorSpec> outputs,
                                                     const std::vector<std::vector<double>>& inputs);
std::vector<std::vector<double>> recurrent_gradient_reference(const graph::OpCall& call,
                                                              std::span<const TensorSpec> outputs,
                                                              const std::vector<std::vector<double>>& inputs);
/// The same where products multiply rounded numbers: h of the step before, and gradients of the gates' sums.
/// The other factors, which are inputs, are given rounded.
using Rounding = double (*)(double);
std::vector<std::vector<double>> rounding_recurrent_reference(const graph::OpCall& call,
                                                              std::span<const TensorSpec> outputs,
                                                              const std::vector<std::vector<double>>& inputs,
                                                              Rounding round);
std::vector<std::vector<double>> rounding_recurrent_gradient_reference(
    const graph::OpCall& call, std::span<const TensorSpec> outputs,
    const std::vector<std::vector<double>>& inputs, Rounding round);
/// `gradient` is the row of the gradient op; its samples need the forward op's rule.
std::vector<graph::OpSample> recurrent_samples(const graph::OpDef& forward);
std::vector<graph::OpSample> recurrent_gradient_samples(const graph::OpDef& forward);

}  // namespace isochron::ops
