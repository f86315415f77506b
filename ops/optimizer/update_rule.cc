#include "isochron/ops/optimizer/update_rule.h"

#include <cmath>
#include <utility>

namespace isochron::ops {

using graph::Attributes;

#define X(rule) OptimizerRule rule##_rule();
ISOCHRON_OPTIMIZER_RULES(X)
#undef X

const std::vector<std::pair<std::string_view, OptimizerRule>>& optimizer_rules() {
  static const std::vector<std::pair<std::string_view, OptimizerRule>> rules = {
#define X(rule) {#rule "_update", rule##_rule()},
      ISOCHRON_OPTIMIZER_RULES(X)
#undef X
  };
  return rules;
}

const OptimizerRule& optimizer_rule(std::string_view row) {
  for (const auto& [name, rule] : optimizer_rules()) {
    if (name == row) return rule;
  }
  fail(ErrorCode::kInvalidArgument, row, "is not an optimizer's update");
}

std::string_view functor_name(UpdateFunctor functor) {
#define X(name) #name,
  constexpr std::string_view kNames[] = {ISOCHRON_UPDATE_FUNCTORS(X)};
#undef X
  return kNames[static_cast<size_t>(functor)];
}

double descend(const ParameterUpdate& update, double p, double direction, double* velocity) {
  const double momentum = update.attributes.get<double>("momentum");
  if (momentum == 0) return p - update.rate * direction;
  const bool outside = update.attributes.get<bool>("learning_rate_outside_velocity");
  const double scaled = outside ? direction : update.rate * direction;
  *velocity = momentum * *velocity + scaled;
  const double move = update.attributes.get_or("nesterov", false) ? momentum * *velocity + scaled : *velocity;
  return p - (outside ? update.rate : 1.0) * move;
}

double root_with_epsilon(const Attributes& attributes, double square) {
  const double epsilon = attributes.get<double>("epsilon");
  return attributes.get<bool>("epsilon_outside_root") ? std::sqrt(square) + epsilon
                                                      : std::sqrt(square + epsilon);
}

void update_moments(const Attributes& attributes, double g, double* states) {
  states[0] += (g - states[0]) * (1 - attributes.get<double>("beta_1"));
  states[1] += (g * g - states[1]) * (1 - attributes.get<double>("beta_2"));
}

double bias_correction(const ParameterUpdate& update, std::string_view beta) {
  return 1 - std::pow(update.attributes.get<double>(beta), update.step + 1);
}

double sum_of_squares(std::span<const double> values) {
  double total = 0;
  for (const double value : values) total += value * value;
  return total;
}

UpdateDefinition usual_definition(UpdateFunctor functor, const Attributes& attributes) {
  UpdateDefinition definition{functor, {}};
  element::UpdateSettings& settings = definition.settings;
  element::UpdateNumbers& fixed = settings.fixed;
  settings.beta_1 = attributes.get_or<double>("beta_1", 0.0);
  settings.beta_2 = attributes.get_or<double>("beta_2", 0.0);
  settings.epsilon_after_correction = attributes.get_or("epsilon_after_correction", false);
  fixed.momentum = attributes.get_or<double>("momentum", 0.0);
  settings.rate_in_velocity =
      fixed.momentum > 0 && !attributes.get_or("learning_rate_outside_velocity", false);
  fixed.epsilon_inside = attributes.get_or<double>("epsilon", 0.0);
  fixed.new_1 = 1 - settings.beta_1;
  fixed.old_2 = attributes.get_or<double>(attributes.has("rho") ? "rho" : "beta_2", 0.0);
  fixed.new_2 = 1 - fixed.old_2;
  return definition;
}

void move_epsilon_outside(UpdateDefinition& definition) {
  element::UpdateNumbers& fixed = definition.settings.fixed;
  fixed.epsilon_outside = std::exchange(fixed.epsilon_inside, 0);
}

}  // namespace isochron::ops
