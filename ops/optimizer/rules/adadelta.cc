// Adadelta: v = rho v + (1 - rho) g g; x = g sqrt(d + epsilon) / sqrt(v + epsilon);
// d = rho d + (1 - rho) x x; w -= r x.
// (Zeiler, 2012.)
#include "isochron/ops/optimizer/update_rule.h"

#include <cmath>

namespace isochron::ops {
namespace {

using graph::Attributes;

double adadelta(const ParameterUpdate& update, double p, double g, double* states) {
  const double rho = update.attributes.get<double>("rho");
  const double epsilon = update.attributes.get<double>("epsilon");
  states[0] = rho * states[0] + (1 - rho) * g * g;
  const double move = g * std::sqrt(states[1] + epsilon) / std::sqrt(states[0] + epsilon);
  states[1] = rho * states[1] + (1 - rho) * move * move;
  return p - update.rate * move;
}

UpdateDefinition adadelta_definition(const Attributes& attributes) {
  return usual_definition(UpdateFunctor::kAdadelta, attributes);
}

}  // namespace

OptimizerRule adadelta_rule() {
  return {.summary = "Adadelta",
          .variants = {Attributes{{"rho", 0.9}, {"epsilon", 1e-2}}},
          .states = count_states<2>,
          .reference = by_element<adadelta>,
          .definition = adadelta_definition};
}

}  // namespace isochron::ops
