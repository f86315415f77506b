// The description of an optimizer's update rule. Each has a file in ops/optimizer/rules, and a line in the
// list below.
//
// A rule that works on each element alone names a functor (rules/*-inl.h), which kernels apply to all
// parameters in one pass; any other is written in other ops. Both have a definition on doubles, which they
// are tested against.
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

/// What kernels need of a rule by elements.
struct UpdateDefinition {
  UpdateFunctor functor = UpdateFunctor::kSgd;
  element::UpdateSettings settings;
};

/// One parameter's update on doubles. A definition changes `p`, from which weight decay has been taken, and
/// the states.
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
  /// Variants for samples, the most usual one first.
  std::vector<graph::Attributes> variants;
  /// How many states a parameter has.
  size_t (*states)(const graph::Attributes& attributes);
  /// The definition.
  void (*reference)(ParameterUpdate& update);
  /// For rules that work on each element alone; otherwise null.
  UpdateDefinition (*definition)(const graph::Attributes& attributes) = nullptr;
  /// For all others: the results of the row, computed by other ops.
  std::vector<Tensor> (*decompose)(const graph::OpCall& call, std::span<const Tensor> inputs) = nullptr;
  /// The shape of state `k` of a parameter; null where it is the parameter's.
  Shape (*state_shape)(const Shape& parameter, size_t k) = nullptr;
  /// Whether an update depends on how many came before it.
  bool reads_step = false;
  /// Axes that a parameter must have at least.
  int min_rank = 0;
  /// Whether a gradient of zero leaves parameter and states as they are, bit for bit; null where it never
  /// does.
  bool (*zero_changes_nothing)(const graph::Attributes& attributes) = nullptr;
};

/// All of them, by the names of their rows.
const std::vector<std::pair<std::string_view, OptimizerRule>>& optimizer_rules();
/// The rule of a row such as "adam_update". Throws kInvalidArgument for a row that is no optimizer's update.
const OptimizerRule& optimizer_rule(std::string_view row);

// What rules share.

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

/// w after a step along `direction`, with momentum where the attributes have one; `velocity`: its state.
double descend(const ParameterUpdate& update, double p, double direction, double* velocity);
/// The square root of a second moment, with epsilon inside or outside.
double root_with_epsilon(const graph::Attributes& attributes, double square);
/// The first moment and the second, as Adam has them.
void update_moments(const graph::Attributes& attributes, double g, double* states);
/// 1 - beta^t.
double bias_correction(const ParameterUpdate& update, std::string_view beta);
double sum_of_squares(std::span<const double> values);

/// The numbers that attributes of the usual names give: momentum, the decays of the moments (beta_1; beta_2
/// or rho), and epsilon, under the root.
UpdateDefinition usual_definition(UpdateFunctor functor, const graph::Attributes& attributes);
/// Puts epsilon beside the root instead.
void move_epsilon_outside(UpdateDefinition& definition);

template <size_t n>
size_t count_states(const graph::Attributes&) {
  return n;
}

}  // namespace isochron::ops
