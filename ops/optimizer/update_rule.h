// The description of an optimizer's update rule. Each rule has a file in ops/optimizer/rules and an entry in
// the list below.
//
// An elementwise rule names a functor (rules/*-inl.h), which kernels apply to all parameters in one pass. Any
// other rule is composed of other ops. Both kinds have a reference in f64 for tests.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/graph/ir/op.h"
#include "isochron/ops/optimizer/update_numbers.h"

namespace isochron::ops {

// X(rule): a function <rule>_rule in rules/<rule>.cc, of the row <rule>_update.
// clang-format off
#define ISOCHRON_OPTIMIZER_RULES(X)                                \
  X(sgd) X(rmsprop) X(adagrad) X(adadelta) X(lion) X(rprop)        \
  X(adam) X(adamax) X(nadam) X(radam) X(lamb) X(adafactor) X(muon)

// X(functor): a class template in rules/*-inl.h.
#define ISOCHRON_UPDATE_FUNCTORS(X)                                \
  X(Sgd) X(Momentum) X(Nesterov) X(Adam) X(Amsgrad)                \
  X(Rms) X(RmsMomentum) X(Centered) X(CenteredMomentum)            \
  X(Adadelta) X(Adamax) X(Nadam) X(Lion) X(Rprop)
// clang-format on

enum class UpdateFunctor {
#define X(functor) k##functor,
  ISOCHRON_UPDATE_FUNCTORS(X)
#undef X
};
/// The class template's name.
std::string_view functor_name(UpdateFunctor functor);

/// What kernels need to know about an elementwise rule.
struct UpdateDefinition {
  UpdateFunctor functor = UpdateFunctor::kSgd;
  element::UpdateSettings settings;
};

/// One parameter's update in f64, as input and output of a reference: it changes the states and `p`, to which
/// weight decay has already been applied.
struct ParameterUpdate {
  const graph::Attributes& attributes;
  double rate;
  double step;  // from 0
  const Shape& shape;
  std::vector<double>& p;
  std::vector<double> g;
  std::vector<std::vector<double>*> states;
};

struct OptimizerRule {
  std::string_view summary;
  /// Attributes for the samples under test, the most common ones first.
  std::vector<graph::Attributes> variants;
  /// The number of states per parameter.
  size_t (*states)(const graph::Attributes& attributes);
  /// The f64 reference.
  void (*reference)(ParameterUpdate& update);
  /// For elementwise rules; otherwise null.
  UpdateDefinition (*definition)(const graph::Attributes& attributes) = nullptr;
  /// For all other rules: computes the results by other ops.
  std::vector<Tensor> (*decompose)(const graph::OpCall& call, std::span<const Tensor> inputs) = nullptr;
  /// The shape of state `k` of a parameter; null if states have the parameter's shape.
  Shape (*state_shape)(const Shape& parameter, size_t k) = nullptr;
  /// Whether an update depends on the number of earlier updates.
  bool reads_step = false;
  /// The minimum rank of a parameter.
  int min_rank = 0;
  /// Whether a gradient of zero leaves parameter and states unchanged, bit for bit; null means never.
  bool (*zero_changes_nothing)(const graph::Attributes& attributes) = nullptr;
};

/// All rules, by the names of their registry rows.
const std::vector<std::pair<std::string_view, OptimizerRule>>& optimizer_rules();
/// The rule of a row such as "adam_update". Throws kInvalidArgument if the row isn't an optimizer update.
const OptimizerRule& optimizer_rule(std::string_view row);

// Helpers shared by the rules.

/// One element's update: changes `states`, returns the new parameter.
using ElementUpdate = double (*)(const ParameterUpdate& update, double p, double g, double* states);

template <ElementUpdate update_element>
void by_element(ParameterUpdate& update) {
  for (size_t e = 0; e < update.p.size(); ++e) {
    double states[3] = {};
    for (size_t k = 0; k < update.states.size(); ++k) states[k] = (*update.states[k])[e];
    update.p[e] = update_element(update, update.p[e], update.g[e], states);
    for (size_t k = 0; k < update.states.size(); ++k) (*update.states[k])[e] = states[k];
  }
}

/// The parameter after a step along `direction`, with momentum if the attributes have one; `velocity` is the
/// momentum's state.
double descend(const ParameterUpdate& update, double p, double direction, double* velocity);
/// The square root of a second moment, with epsilon inside or outside.
double root_with_epsilon(const graph::Attributes& attributes, double square);
/// Updates the first and second moments as in Adam.
void update_moments(const graph::Attributes& attributes, double g, double* states);
/// 1 - beta^t.
double bias_correction(const ParameterUpdate& update, std::string_view beta);
double sum_of_squares(std::span<const double> values);

/// A definition from attributes with the usual names: momentum, the decays of the moments (beta_1; beta_2 or
/// rho), and epsilon, which is added inside the root.
UpdateDefinition usual_definition(UpdateFunctor functor, const graph::Attributes& attributes);
/// Makes the definition add epsilon outside the root instead.
void move_epsilon_outside(UpdateDefinition& definition);

template <size_t n>
size_t count_states(const graph::Attributes&) {
  return n;
}

}  // namespace isochron::ops
