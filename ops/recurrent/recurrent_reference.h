// References in f64 for testing the recurrent ops, and samples. The gradient ops' samples take their saved
// values from the forward references.
#pragma once

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

std::vector<std::vector<double>> recurrent_reference(const graph::OpCall& call,
                                                     std::span<const TensorSpec> outputs,
                                                     const std::vector<std::vector<double>>& inputs);
std::vector<std::vector<double>> recurrent_gradient_reference(const graph::OpCall& call,
                                                              std::span<const TensorSpec> outputs,
                                                              const std::vector<std::vector<double>>& inputs);
/// The same with the operands of products rounded by `round`: h of the step before, and the gradients of the
/// gates' sums. The other operands are inputs, which the caller passes rounded.
using Rounding = double (*)(double);
std::vector<std::vector<double>> rounding_recurrent_reference(const graph::OpCall& call,
                                                              std::span<const TensorSpec> outputs,
                                                              const std::vector<std::vector<double>>& inputs,
                                                              Rounding round);
std::vector<std::vector<double>> rounding_recurrent_gradient_reference(
    const graph::OpCall& call, std::span<const TensorSpec> outputs,
    const std::vector<std::vector<double>>& inputs, Rounding round);
/// `forward` is the row of the forward op, also for the samples of its gradient op.
std::vector<graph::OpSample> recurrent_samples(const graph::OpDef& forward);
std::vector<graph::OpSample> recurrent_gradient_samples(const graph::OpDef& forward);

}  // namespace isochron::ops
