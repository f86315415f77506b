// Adagrad: v += g g; w -= r g / sqrt(v + epsilon).
// (Duchi, Hazan, Singer, JMLR 2011.)
#include <limits>

#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

using graph::Attributes;

double adagrad(const ParameterUpdate& update, double p, double g, double* states) {
  states[0] += g * g;
  return p - update.rate * g / root_with_epsilon(update.attributes, states[0]);
}

/// RMSprop with a second moment that doesn't decay.
UpdateDefinition adagrad_definition(const Attributes& attributes) {
  UpdateDefinition result = usual_definition(UpdateFunctor::kRms, attributes);
  result.settings.fixed.old_2 = result.settings.fixed.new_2 = 1;
  if (attributes.get_or("epsilon_outside_root", false)) move_epsilon_outside(result);
  return result;
}

}  // namespace

OptimizerRule adagrad_rule() {
  const auto variant = [](bool outside) {
    return Attributes{{"epsilon", 1e-2}, {"epsilon_outside_root", outside}};
  };
  return {.summary = "Adagrad",
          .variants = {variant(false), variant(true)},
          .states = count_states<1>,
          .reference = by_element<adagrad>,
          .definition = adagrad_definition,
          // The sum may be 0 too; then only epsilon prevents 0 / 0.
          .zero_changes_nothing = [](const Attributes& attributes) {
            return attributes.get<double>("epsilon") >= std::numeric_limits<float>::min();
          }};
}

}  // namespace isochron::ops
