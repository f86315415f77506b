// Lion: w -= r sign(beta_1 m + (1 - beta_1) g); m = beta_2 m + (1 - beta_2) g.
// (Chen et al.: "Symbolic Discovery of Optimization Algorithms", 2023.)
#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

using graph::Attributes;

double lion(const ParameterUpdate& update, double p, double g, double* states) {
  const double beta_1 = update.attributes.get<double>("beta_1");
  const double beta_2 = update.attributes.get<double>("beta_2");
  const double direction = beta_1 * states[0] + (1 - beta_1) * g;
  states[0] = beta_2 * states[0] + (1 - beta_2) * g;
  return p - update.rate * (direction > 0 ? 1 : direction < 0 ? -1 : direction);
}

UpdateDefinition lion_definition(const Attributes& attributes) {
  return usual_definition(UpdateFunctor::kLion, attributes);
}

}  // namespace

OptimizerRule lion_rule() {
  return {.summary = "Lion",
          .variants = {Attributes{{"beta_1", 0.9}, {"beta_2", 0.99}}},
          .states = count_states<1>,
          .reference = by_element<lion>,
          .definition = lion_definition};
}

}  // namespace isochron::ops
