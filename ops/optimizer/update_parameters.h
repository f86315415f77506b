// What the kernels of the ops in ops/optimizer/optimizer_updates.h share: the layout of a call and the
// per-parameter numbers.
#pragma once

#include <cstring>
#include <vector>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/optimizer/optimizer_updates.h"
#include "isochron/ops/optimizer/update_numbers.h"

namespace isochron::ops {

/// With fewer elements, a parallel region costs more than it saves.
inline constexpr int64_t kParallelUpdateElems = int64_t{1} << 16;

/// The numbers of each parameter: its factor of the learning rate and its weight decay.
class ParameterFactors {
 public:
  explicit ParameterFactors(const graph::Attributes& attributes)
      : rate_factors_(attributes.get_or<std::vector<double>>("rate_factors", {})),
        weight_decays_(attributes.get_or<std::vector<double>>("weight_decays", {})) {}

  double rate_factor(size_t parameter) const { return rate_factors_.empty() ? 1 : rate_factors_[parameter]; }
  double weight_decay(size_t parameter) const {
    return weight_decays_.empty() ? 0 : weight_decays_[parameter];
  }
  /// The factor by which weight decay multiplies the parameter, at the learning rate `rate`.
  double parameter_factor(size_t parameter, double rate) const {
    return element::decayed_share(rate * rate_factor(parameter), weight_decay(parameter));
  }

 private:
  std::vector<double> rate_factors_;
  std::vector<double> weight_decays_;
};

/// A call's layout and per-parameter numbers.
struct UpdateParameters : ParameterFactors {
  /// For a call with `inputs` inputs.
  UpdateParameters(const graph::OpDef& op, const graph::Attributes& attributes, size_t inputs)
      : ParameterFactors(attributes) {
    layout.states = update_state_count(op, attributes);
    layout.parameters = (inputs - UpdateLayout::kNumbers) / (2 + layout.states);
  }
  explicit UpdateParameters(const graph::KernelRequest& request)
      : UpdateParameters(request.op, request.attributes, request.inputs.size()) {}

  struct Numbers {
    double gradient_factor;
    double rate;
    int64_t step;  // from 1
  };
  /// Reads the call's numbers and writes the new step count to output 0.
  Numbers begin(const graph::KernelArgs& args) const {
    Numbers numbers;
    std::memcpy(&numbers.gradient_factor, args.inputs[UpdateLayout::kGradientFactor], sizeof(double));
    std::memcpy(&numbers.rate, args.inputs[UpdateLayout::kLearningRate], sizeof(double));
    std::memcpy(&numbers.step, args.inputs[UpdateLayout::kStep], sizeof(int64_t));
    ++numbers.step;
    std::memcpy(args.outputs[0], &numbers.step, sizeof(int64_t));
    return numbers;
  }

  UpdateLayout layout;
};

}  // namespace isochron::ops
