// What a row of ops/optimizer_updates.h and its attributes ask of the kernels: one of the rules of
// update_rules-inl.h, and its settings.
#pragma once

#include <string_view>

#include "isochron/graph/op.h"
#include "isochron/ops/update_numbers.h"

namespace isochron::ops {

// X(rule): a class template in update_rules-inl.h.
// clang-format off
#define ISOCHRON_UPDATE_RULES(X)                                              \
  X(Sgd) X(Momentum) X(Nesterov) X(Adam) X(Amsgrad)                           \
  X(Rms) X(RmsMomentum) X(Centered) X(CenteredMomentum) X(Adadelta) X(Adamax) \
  X(Nadam) X(Lion)
// clang-format on

enum class UpdateRule {
#define X(rule) k##rule,
  ISOCHRON_UPDATE_RULES(X)
#undef X
};
/// The class template's name.
std::string_view update_rule_name(UpdateRule rule);

struct UpdateDefinition {
  UpdateRule rule = UpdateRule::kSgd;
  element::UpdateSettings settings;
};
UpdateDefinition update_definition(const graph::OpDef& op, const graph::Attributes& attributes);

}  // namespace isochron::ops
