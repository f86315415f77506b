#include "isochron/optim/optimizers.h"

namespace isochron::optim {
namespace {

using Names = std::vector<std::string>;

Names adam_states(bool amsgrad) {
  Names names = {"mean_gradient", "mean_square"};
  if (amsgrad) names.push_back("largest_mean_square");
  return names;
}

template <typename Options>
graph::Attributes adam_attributes(const Options& options, bool epsilon_after_correction) {
  return {{"beta_1", options.beta_1},
          {"beta_2", options.beta_2},
          {"epsilon", options.epsilon},
          {"amsgrad", options.amsgrad},
          {"epsilon_after_correction", epsilon_after_correction}};
}

Names rmsprop_states(const RmsPropOptions& options) {
  Names names = {"mean_square"};
  if (options.centered) names.push_back("mean_gradient");
  if (options.momentum > 0) names.push_back("velocity");
  return names;
}

}  // namespace

Sgd::Sgd(const SgdOptions& options)
    : Optimizer("sgd_update",
                {{"momentum", options.momentum},
                 {"nesterov", options.nesterov},
                 {"learning_rate_outside_velocity", options.learning_rate_outside_velocity}},
                options.momentum > 0 ? Names{"velocity"} : Names{}, options.learning_rate,
                options.weight_decay) {}

Adam::Adam(const AdamOptions& options)
    : Optimizer("adam_update", adam_attributes(options, options.epsilon_after_correction),
                adam_states(options.amsgrad), options.learning_rate) {}

AdamW::AdamW(const AdamWOptions& options)
    : Optimizer("adam_update", adam_attributes(options, true), adam_states(options.amsgrad),
                options.learning_rate, options.weight_decay) {}

RmsProp::RmsProp(const RmsPropOptions& options)
    : Optimizer("rmsprop_update",
                {{"rho", options.rho},
                 {"momentum", options.momentum},
                 {"epsilon", options.epsilon},
                 {"centered", options.centered},
                 {"epsilon_outside_root", options.epsilon_outside_root},
                 {"learning_rate_outside_velocity", options.learning_rate_outside_velocity}},
                rmsprop_states(options), options.learning_rate) {}

}  // namespace isochron::optim
