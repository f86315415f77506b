// Rprop: each element has a step size s, which begins at the learning rate and is kept between min_step and
// max_step. If g has the sign of the previous gradient, s *= eta_plus. If the sign has changed, s *=
// eta_minus, and g counts as 0, both in this update and as the previous gradient of the next one. w -= s
// sign(g). If the learning rate is 0, nothing changes. (Riedmiller and Braun: "A Direct Adaptive Method for
// Faster Backpropagation Learning", 1993; as in PyTorch.)
#include <algorithm>

#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

using graph::Attributes;

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

double rprop(const ParameterUpdate& update, double p, double g, double* states) {
  if (update.rate <= 0) return p;
  const double agreement = sign_of(g) * sign_of(states[0]);
  double step = states[1] > 0 ? states[1] : update.rate;
  if (agreement > 0) step *= update.attributes.get<double>("eta_plus");
  if (agreement < 0) step *= update.attributes.get<double>("eta_minus");
  states[0] = agreement < 0 ? 0 : g;
  states[1] =
      std::clamp(step, update.attributes.get<double>("min_step"), update.attributes.get<double>("max_step"));
  return p - states[1] * sign_of(states[0]);
}

UpdateDefinition rprop_definition(const Attributes& attributes) {
  UpdateDefinition result = usual_definition(UpdateFunctor::kRprop, attributes);
  element::UpdateNumbers& fixed = result.settings.fixed;
  fixed.eta_minus = attributes.get<double>("eta_minus");
  fixed.eta_plus = attributes.get<double>("eta_plus");
  fixed.min_step = attributes.get<double>("min_step");
  fixed.max_step = attributes.get<double>("max_step");
  return result;
}

}  // namespace

OptimizerRule rprop_rule() {
  const auto variant = [](double min_step, double max_step) {
    return Attributes{{"eta_minus", 0.5}, {"eta_plus", 1.2}, {"min_step", min_step}, {"max_step", max_step}};
  };
  return {.summary = "Rprop",
          .variants = {variant(1e-6, 50), variant(0.15, 0.3)},
          .states = count_states<2>,
          .reference = by_element<rprop>,
          .definition = rprop_definition};
}

}  // namespace isochron::ops
