// Nadam: m and v as in Adam; c_t = beta_1 (1 - 0.96^(t momentum_decay) / 2); C_t = c_1 ... c_t; w -= r
// (c_{t+1} m / (1 - C_{t+1}) + (1 - c_t) g / (1 - C_t)) / (sqrt(v / (1 - beta_2^t)) + epsilon). (Dozat, ICLR
// workshop 2016.)
#include "isochron/ops/optimizer/update_rule.h"

#include <cmath>

namespace isochron::ops {
namespace {

using graph::Attributes;

double nadam(const ParameterUpdate& update, double p, double g, double* states) {
  const auto momentum = [&](double t) {
    return update.attributes.get<double>("beta_1") *
           (1 - 0.5 * std::pow(0.96, t * update.attributes.get<double>("momentum_decay")));
  };
  update_moments(update.attributes, g, states);
  double product = 1;
  for (double t = 1; t <= update.step + 1; ++t) product *= momentum(t);
  const double now = momentum(update.step + 1);
  const double next = momentum(update.step + 2);
  const double move = next * states[0] / (1 - product * next) + (1 - now) * g / (1 - product);
  const double root = std::sqrt(states[1] / bias_correction(update, "beta_2"));
  return p - update.rate * move / (root + update.attributes.get<double>("epsilon"));
}

UpdateDefinition nadam_definition(const Attributes& attributes) {
  UpdateDefinition result = usual_definition(UpdateFunctor::kNadam, attributes);
  result.settings.correction = element::Correction::kNesterov;
  result.settings.fading = -std::log(0.96) * attributes.get<double>("momentum_decay");
  result.settings.epsilon_after_correction = true;
  move_epsilon_outside(result);
  return result;
}

}  // namespace

OptimizerRule nadam_rule() {
  const auto variant = [](double momentum_decay) {
    return Attributes{
        {"beta_1", 0.9}, {"beta_2", 0.99}, {"epsilon", 1e-2}, {"momentum_decay", momentum_decay}};
  };
  return {.summary = "Nadam",
          .variants = {variant(1), variant(0.004)},
          .states = count_states<2>,
          .reference = by_element<nadam>,
          .definition = nadam_definition,
          .reads_step = true};
}

}  // namespace isochron::ops
