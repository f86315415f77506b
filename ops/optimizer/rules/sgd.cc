// Stochastic gradient descent: w -= r g. With momentum: m = momentum m + r g; w -= m, or with nesterov
// w -= momentum m + r g.
#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

using graph::Attributes;

size_t sgd_states(const Attributes& attributes) {
  return attributes.get_or<double>("momentum", 0.0) > 0 ? 1 : 0;
}

double sgd(const ParameterUpdate& update, double p, double g, double* states) {
  return descend(update, p, g, states);
}

bool has_no_state(const Attributes& attributes) { return sgd_states(attributes) == 0; }

UpdateDefinition sgd_definition(const Attributes& attributes) {
  if (has_no_state(attributes)) return usual_definition(UpdateFunctor::kSgd, attributes);
  return usual_definition(
      attributes.get<bool>("nesterov") ? UpdateFunctor::kNesterov : UpdateFunctor::kMomentum, attributes);
}

}  // namespace

OptimizerRule sgd_rule() {
  const auto variant = [](double momentum, bool nesterov, bool outside) {
    return Attributes{
        {"momentum", momentum}, {"nesterov", nesterov}, {"learning_rate_outside_velocity", outside}};
  };
  return {.summary = "stochastic gradient descent, also with momentum",
          .variants = {variant(0, false, false), variant(0.9, false, false), variant(0.9, true, false),
                       variant(0.9, false, true), variant(0.9, true, true)},
          .states = sgd_states,
          .reference = by_element<sgd>,
          .definition = sgd_definition,
          .zero_changes_nothing = has_no_state};
}

}  // namespace isochron::ops
