// Adamax: m as in Adam; u = max(beta_2 u, |g|); w -= r / (1 - beta_1^t) * m / (u + epsilon). (Kingma and Ba:
// "Adam", ICLR 2015.)
#include "isochron/ops/optimizer/update_rule.h"

#include <algorithm>
#include <cmath>

namespace isochron::ops {
namespace {

using graph::Attributes;

double adamax(const ParameterUpdate& update, double p, double g, double* states) {
  const double epsilon = update.attributes.get<double>("epsilon");
  const bool within = update.attributes.get<bool>("epsilon_within_norm");
  states[0] += (g - states[0]) * (1 - update.attributes.get<double>("beta_1"));
  states[1] =
      std::max(update.attributes.get<double>("beta_2") * states[1], std::abs(g) + (within ? epsilon : 0));
  return p -
         update.rate / bias_correction(update, "beta_1") * states[0] / (states[1] + (within ? 0 : epsilon));
}

UpdateDefinition adamax_definition(const Attributes& attributes) {
  UpdateDefinition result = usual_definition(UpdateFunctor::kAdamax, attributes);
  result.settings.correction = element::Correction::kFirst;
  if (!attributes.get<bool>("epsilon_within_norm")) move_epsilon_outside(result);
  return result;
}

}  // namespace

OptimizerRule adamax_rule() {
  const auto variant = [](bool within) {
    return Attributes{{"beta_1", 0.9}, {"beta_2", 0.99}, {"epsilon", 1e-2}, {"epsilon_within_norm", within}};
  };
  return {.summary = "Adamax",
          .variants = {variant(false), variant(true)},
          .states = count_states<2>,
          .reference = by_element<adamax>,
          .definition = adamax_definition,
          .reads_step = true};
}

}  // namespace isochron::ops
