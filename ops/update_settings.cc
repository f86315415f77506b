#include "isochron/ops/update_settings.h"

#include <array>
#include <cmath>

namespace isochron::ops {
namespace {

using element::Correction;

UpdateRule rule_of(const graph::OpDef& op, const graph::Attributes& attributes) {
  const bool momentum = attributes.get_or<double>("momentum", 0.0) > 0;
  if (op.name == "sgd_update") {
    if (!momentum) return UpdateRule::kSgd;
    return attributes.get<bool>("nesterov") ? UpdateRule::kNesterov : UpdateRule::kMomentum;
  }
  if (op.name == "rmsprop_update") {
    if (attributes.get<bool>("centered"))
      return momentum ? UpdateRule::kCenteredMomentum : UpdateRule::kCentered;
    return momentum ? UpdateRule::kRmsMomentum : UpdateRule::kRms;
  }
  if (op.name == "adagrad_update") return UpdateRule::kRms;  // with a second moment that forgets nothing
  if (op.name == "adadelta_update") return UpdateRule::kAdadelta;
  if (op.name == "adam_update")
    return attributes.get<bool>("amsgrad") ? UpdateRule::kAmsgrad : UpdateRule::kAdam;
  if (op.name == "adamax_update") return UpdateRule::kAdamax;
  return op.name == "nadam_update" ? UpdateRule::kNadam : UpdateRule::kLion;
}

bool epsilon_outside(UpdateRule rule, const graph::Attributes& attributes) {
  switch (rule) {
    case UpdateRule::kAdam:
    case UpdateRule::kAmsgrad:
    case UpdateRule::kNadam:
      return true;
    case UpdateRule::kAdamax:
      return !attributes.get<bool>("epsilon_within_norm");
    default:
      return attributes.get_or("epsilon_outside_root", false);
  }
}

}  // namespace

std::string_view update_rule_name(UpdateRule rule) {
#define X(name) #name,
  constexpr std::string_view kNames[] = {ISOCHRON_UPDATE_RULES(X)};
#undef X
  return kNames[static_cast<size_t>(rule)];
}

UpdateDefinition update_definition(const graph::OpDef& op, const graph::Attributes& attributes) {
  UpdateDefinition definition;
  const UpdateRule rule = definition.rule = rule_of(op, attributes);
  element::UpdateSettings& settings = definition.settings;
  element::UpdateNumbers& fixed = settings.fixed;
  settings.beta_1 = attributes.get_or<double>("beta_1", 0.0);
  settings.beta_2 = attributes.get_or<double>("beta_2", 0.0);
  settings.epsilon_after_correction = attributes.get_or("epsilon_after_correction", false);
  fixed.momentum = attributes.get_or<double>("momentum", 0.0);
  settings.rate_in_velocity =
      fixed.momentum > 0 && !attributes.get_or("learning_rate_outside_velocity", false);
  if (rule == UpdateRule::kAdam || rule == UpdateRule::kAmsgrad) settings.correction = Correction::kBoth;
  if (rule == UpdateRule::kNadam) {
    settings.correction = Correction::kNesterov;
    settings.fading = -std::log(0.96) * attributes.get<double>("momentum_decay");
    settings.epsilon_after_correction = true;
  }
  if (rule == UpdateRule::kAdamax) settings.correction = Correction::kFirst;
  (epsilon_outside(rule, attributes) ? fixed.epsilon_outside : fixed.epsilon_inside) =
      attributes.get_or<double>("epsilon", 0.0);
  fixed.new_1 = 1 - settings.beta_1;
  fixed.old_2 = attributes.get_or<double>(attributes.has("rho") ? "rho" : "beta_2", 0.0);
  fixed.new_2 = 1 - fixed.old_2;
  if (op.name == "adagrad_update") fixed.old_2 = fixed.new_2 = 1;
  return definition;
}

}  // namespace isochron::ops
