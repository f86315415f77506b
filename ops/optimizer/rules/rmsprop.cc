// RMSprop: v = rho v + (1 - rho) g g; w -= r g / sqrt(v + epsilon). If centered: a = rho a + (1 - rho) g, and
// v - a a (at least 0) replaces v under the root. With momentum: m = momentum m + r g / sqrt(...); w -= m.
// (Tieleman and Hinton: lecture 6.5, 2012.)
#include "isochron/ops/optimizer/update_rule.h"

#include <algorithm>

namespace isochron::ops {
namespace {

using graph::Attributes;

size_t rmsprop_states(const Attributes& attributes) {
  return 1 + (attributes.get<bool>("centered") ? 1 : 0) + (attributes.get<double>("momentum") > 0 ? 1 : 0);
}

double rmsprop(const ParameterUpdate& update, double p, double g, double* states) {
  const double rho = update.attributes.get<double>("rho");
  double square = states[0] = rho * states[0] + (1 - rho) * g * g;
  double* velocity = states + 1;
  if (update.attributes.get<bool>("centered")) {
    states[1] = rho * states[1] + (1 - rho) * g;
    square = std::max(square - states[1] * states[1], 0.0);
    ++velocity;
  }
  return descend(update, p, g / root_with_epsilon(update.attributes, square), velocity);
}

UpdateDefinition rmsprop_definition(const Attributes& attributes) {
  using enum UpdateFunctor;
  const bool momentum = attributes.get<double>("momentum") > 0;
  const UpdateFunctor functor = attributes.get<bool>("centered") ? (momentum ? kCenteredMomentum : kCentered)
                                                                 : (momentum ? kRmsMomentum : kRms);
  UpdateDefinition result = usual_definition(functor, attributes);
  if (attributes.get_or("epsilon_outside_root", false)) move_epsilon_outside(result);
  return result;
}

}  // namespace

OptimizerRule rmsprop_rule() {
  const auto variant = [](double momentum, bool centered, bool outside) {
    return Attributes{{"rho", 0.9},
                      {"momentum", momentum},
                      {"epsilon", 1e-2},
                      {"centered", centered},
                      {"epsilon_outside_root", outside},
                      {"learning_rate_outside_velocity", outside}};
  };
  return {.summary = "RMSprop, also centered and with momentum",
          .variants = {variant(0, false, false), variant(0.9, false, false), variant(0, true, false),
                       variant(0.9, true, false), variant(0, false, true), variant(0.9, true, true)},
          .states = rmsprop_states,
          .reference = by_element<rmsprop>,
          .definition = rmsprop_definition};
}

}  // namespace isochron::ops
