// Adam: m += (g - m)(1 - beta_1); v += (g g - v)(1 - beta_2); w -= r sqrt(1 - beta_2^t) / (1 - beta_1^t) * m
// / (sqrt(v) + epsilon). With amsgrad, h = max(h, v) replaces v in the last formula. (Kingma and Ba: "Adam",
// ICLR 2015; amsgrad: Reddi et al., "On the Convergence of Adam and Beyond", ICLR 2018.)
#include "isochron/ops/optimizer/update_rule.h"

#include <algorithm>
#include <cmath>

namespace isochron::ops {
namespace {

using graph::Attributes;

size_t adam_states(const Attributes& attributes) { return attributes.get<bool>("amsgrad") ? 3 : 2; }

double adam(const ParameterUpdate& update, double p, double g, double* states) {
  const double epsilon = update.attributes.get<double>("epsilon");
  update_moments(update.attributes, g, states);
  double v = states[1];
  if (update.attributes.get<bool>("amsgrad")) v = states[2] = std::max(states[2], v);
  const double correction_1 = bias_correction(update, "beta_1");
  const double correction_2 = std::sqrt(bias_correction(update, "beta_2"));
  if (update.attributes.get<bool>("epsilon_after_correction"))
    return p - update.rate / correction_1 * states[0] / (std::sqrt(v) / correction_2 + epsilon);
  return p - update.rate * correction_2 / correction_1 * states[0] / (std::sqrt(v) + epsilon);
}

UpdateDefinition adam_definition(const Attributes& attributes) {
  UpdateDefinition result = usual_definition(
      attributes.get<bool>("amsgrad") ? UpdateFunctor::kAmsgrad : UpdateFunctor::kAdam, attributes);
  result.settings.correction = element::Correction::kBoth;
  move_epsilon_outside(result);
  return result;
}

}  // namespace

OptimizerRule adam_rule() {
  const auto variant = [](bool amsgrad, bool after) {
    return Attributes{{"beta_1", 0.9},
                      {"beta_2", 0.99},
                      {"epsilon", 1e-2},
                      {"amsgrad", amsgrad},
                      {"epsilon_after_correction", after}};
  };
  return {
      .summary = "Adam and AMSGrad",
      .variants = {variant(false, false), variant(true, false), variant(false, true), variant(true, true)},
      .states = adam_states,
      .reference = by_element<adam>,
      .definition = adam_definition,
      .reads_step = true};
}

}  // namespace isochron::ops
