#include "isochron/optim/optimizers.h"

namespace isochron::optim {
namespace {

using Names = std::vector<std::string>;

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
                options.momentum > 0 ? Names{"velocity"} : Names{}, options.learning_rate) {}

Adam::Adam(const AdamOptions& options)
    : Optimizer("adam_update",
                {{"beta_1", options.beta_1},
                 {"beta_2", options.beta_2},
                 {"epsilon", options.epsilon},
                 {"amsgrad", options.amsgrad},
                 {"epsilon_after_correction", options.epsilon_after_correction}},
                options.amsgrad ? Names{"mean_gradient", "mean_square", "largest_mean_square"}
                                : Names{"mean_gradient", "mean_square"},
                options.learning_rate) {}

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
