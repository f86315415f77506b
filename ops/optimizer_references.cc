#include "isochron/ops/optimizer_references.h"

#include <algorithm>
#include <cmath>

#include "isochron/ops/optimizer_updates.h"

namespace isochron::ops {
namespace {

using graph::Attributes;
using graph::OpCall;
using Values = std::vector<double>;

/// One parameter's update: changes parameter and states. `rate` and `step` (from 0) are the call's.
struct ParameterUpdate {
  const Attributes& attributes;
  double rate;
  double step;
  const Shape& shape;
  Values& p;
  Values g;
  std::vector<Values*> states;
};
using ParameterRule = void (*)(ParameterUpdate& update);

/// One element's update: changes `states`, returns the new parameter.
using ElementRule = double (*)(const Attributes& attributes, double rate, double step, double p, double g,
                               double* states);

template <ElementRule rule>
void by_element(ParameterUpdate& update) {
  for (size_t e = 0; e < update.p.size(); ++e) {
    double states[3] = {};
    for (size_t k = 0; k < update.states.size(); ++k) states[k] = (*update.states[k])[e];
    update.p[e] = rule(update.attributes, update.rate, update.step, update.p[e], update.g[e], states);
    for (size_t k = 0; k < update.states.size(); ++k) (*update.states[k])[e] = states[k];
  }
}

double descend(const Attributes& attributes, double rate, double p, double direction, double* velocity) {
  const double momentum = attributes.get<double>("momentum");
  if (momentum == 0) return p - rate * direction;
  const bool outside = attributes.get<bool>("learning_rate_outside_velocity");
  const double scaled = outside ? direction : rate * direction;
  *velocity = momentum * *velocity + scaled;
  const double move = attributes.get_or("nesterov", false) ? momentum * *velocity + scaled : *velocity;
  return p - (outside ? rate : 1.0) * move;
}

double sgd(const Attributes& attributes, double rate, double, double p, double g, double* states) {
  return descend(attributes, rate, p, g, states);
}

/// What Adam's family remembers: the first moment and the second.
void remember(const Attributes& attributes, double g, double* states) {
  states[0] += (g - states[0]) * (1 - attributes.get<double>("beta_1"));
  states[1] += (g * g - states[1]) * (1 - attributes.get<double>("beta_2"));
}

double correction(const Attributes& attributes, std::string_view beta, double step) {
  return 1 - std::pow(attributes.get<double>(beta), step + 1);
}

double adam(const Attributes& attributes, double rate, double step, double p, double g, double* states) {
  const double epsilon = attributes.get<double>("epsilon");
  remember(attributes, g, states);
  double v = states[1];
  if (attributes.get<bool>("amsgrad")) v = states[2] = std::max(states[2], v);
  const double correction_1 = correction(attributes, "beta_1", step);
  const double correction_2 = std::sqrt(correction(attributes, "beta_2", step));
  if (attributes.get<bool>("epsilon_after_correction")) {
    return p - rate / correction_1 * states[0] / (std::sqrt(v) / correction_2 + epsilon);
  }
  return p - rate * correction_2 / correction_1 * states[0] / (std::sqrt(v) + epsilon);
}

double root_with_epsilon(const Attributes& attributes, double square) {
  const double epsilon = attributes.get<double>("epsilon");
  return attributes.get<bool>("epsilon_outside_root") ? std::sqrt(square) + epsilon
                                                      : std::sqrt(square + epsilon);
}

double rmsprop(const Attributes& attributes, double rate, double, double p, double g, double* states) {
  const double rho = attributes.get<double>("rho");
  double square = states[0] = rho * states[0] + (1 - rho) * g * g;
  double* velocity = states + 1;
  if (attributes.get<bool>("centered")) {
    states[1] = rho * states[1] + (1 - rho) * g;
    square = std::max(square - states[1] * states[1], 0.0);
    ++velocity;
  }
  return descend(attributes, rate, p, g / root_with_epsilon(attributes, square), velocity);
}

double adagrad(const Attributes& attributes, double rate, double, double p, double g, double* states) {
  states[0] += g * g;
  return p - rate * g / root_with_epsilon(attributes, states[0]);
}

double adadelta(const Attributes& attributes, double rate, double, double p, double g, double* states) {
  const double rho = attributes.get<double>("rho");
  const double epsilon = attributes.get<double>("epsilon");
  states[0] = rho * states[0] + (1 - rho) * g * g;
  const double move = g * std::sqrt(states[1] + epsilon) / std::sqrt(states[0] + epsilon);
  states[1] = rho * states[1] + (1 - rho) * move * move;
  return p - rate * move;
}

double adamax(const Attributes& attributes, double rate, double step, double p, double g, double* states) {
  const double epsilon = attributes.get<double>("epsilon");
  const bool within = attributes.get<bool>("epsilon_within_norm");
  states[0] += (g - states[0]) * (1 - attributes.get<double>("beta_1"));
  states[1] = std::max(attributes.get<double>("beta_2") * states[1], std::abs(g) + (within ? epsilon : 0));
  return p - rate / correction(attributes, "beta_1", step) * states[0] / (states[1] + (within ? 0 : epsilon));
}

double nadam(const Attributes& attributes, double rate, double step, double p, double g, double* states) {
  const auto momentum = [&](double t) {
    return attributes.get<double>("beta_1") *
           (1 - 0.5 * std::pow(0.96, t * attributes.get<double>("momentum_decay")));
  };
  remember(attributes, g, states);
  double product = 1;
  for (double t = 1; t <= step + 1; ++t) product *= momentum(t);
  const double now = momentum(step + 1);
  const double next = momentum(step + 2);
  const double move = next * states[0] / (1 - product * next) + (1 - now) * g / (1 - product);
  const double root = std::sqrt(states[1] / correction(attributes, "beta_2", step));
  return p - rate * move / (root + attributes.get<double>("epsilon"));
}

double lion(const Attributes& attributes, double rate, double, double p, double g, double* states) {
  const double beta_1 = attributes.get<double>("beta_1");
  const double beta_2 = attributes.get<double>("beta_2");
  const double direction = beta_1 * states[0] + (1 - beta_1) * g;
  states[0] = beta_2 * states[0] + (1 - beta_2) * g;
  return p - rate * (direction > 0 ? 1 : direction < 0 ? -1 : direction);
}

double sum_of_squares(const Values& values) {
  double total = 0;
  for (const double value : values) total += value * value;
  return total;
}

void lamb(ParameterUpdate& update) {
  Values moves(update.p.size());
  for (size_t e = 0; e < moves.size(); ++e) {
    double states[2] = {(*update.states[0])[e], (*update.states[1])[e]};
    remember(update.attributes, update.g[e], states);
    for (const size_t k : {0, 1}) (*update.states[k])[e] = states[k];
    const double root = std::sqrt(states[1] / correction(update.attributes, "beta_2", update.step));
    moves[e] = states[0] / correction(update.attributes, "beta_1", update.step) /
               (root + update.attributes.get<double>("epsilon"));
  }
  const double norm = std::sqrt(sum_of_squares(update.p));
  const double length = std::sqrt(sum_of_squares(moves));
  const double ratio = norm > 0 && length > 0 ? norm / length : 1;
  for (size_t e = 0; e < moves.size(); ++e) update.p[e] -= update.rate * ratio * moves[e];
}

/// The second moment of Adafactor at every element, from row and column means; updates those.
Values factored_moment(ParameterUpdate& update, double kept, double epsilon) {
  const size_t columns = static_cast<size_t>(update.shape[update.shape.rank() - 1]);
  const size_t rows = static_cast<size_t>(update.shape[update.shape.rank() - 2]);
  const size_t matrices = columns * rows > 0 ? update.p.size() / (rows * columns) : 0;
  Values& a = *update.states[0];
  Values& c = *update.states[1];
  Values result(update.p.size());
  for (size_t m = 0; m < matrices; ++m) {
    const auto square = [&](size_t i, size_t j) {
      const double g = update.g[(m * rows + i) * columns + j];
      return g * g + epsilon;
    };
    double mean = 0;
    for (size_t i = 0; i < rows; ++i) {
      double total = 0;
      for (size_t j = 0; j < columns; ++j) total += square(i, j);
      double& row = a[m * rows + i];
      row = kept * row + (1 - kept) * total / static_cast<double>(columns);
      mean += row / static_cast<double>(rows);
    }
    for (size_t j = 0; j < columns; ++j) {
      double total = 0;
      for (size_t i = 0; i < rows; ++i) total += square(i, j);
      double& column = c[m * columns + j];
      column = kept * column + (1 - kept) * total / static_cast<double>(rows);
      for (size_t i = 0; i < rows; ++i)
        result[(m * rows + i) * columns + j] = a[m * rows + i] / mean * column;
    }
  }
  return result;
}

void adafactor(ParameterUpdate& update) {
  const double count = static_cast<double>(update.p.size());
  const double t = update.step + 1;
  const double kept = 1 - std::pow(t, update.attributes.get<double>("beta_2_decay"));
  const double epsilon = update.attributes.get<double>("epsilon_1");
  Values moment;
  if (update.shape.rank() >= 2) {
    moment = factored_moment(update, kept, epsilon);
  } else {
    Values& a = *update.states[0];
    for (size_t e = 0; e < a.size(); ++e)
      a[e] = kept * a[e] + (1 - kept) * (update.g[e] * update.g[e] + epsilon);
    moment = a;
  }
  Values moves(update.p.size());
  for (size_t e = 0; e < moves.size(); ++e) moves[e] = update.g[e] / std::sqrt(moment[e]);
  const double rms = std::sqrt(sum_of_squares(update.p) / count);
  const double move_rms = std::sqrt(sum_of_squares(moves) / count);
  const double rate = std::min(update.rate, 1 / std::sqrt(t)) *
                      std::max(update.attributes.get<double>("epsilon_2"), rms) /
                      std::max(1.0, move_rms / update.attributes.get<double>("clip_threshold"));
  for (size_t e = 0; e < moves.size(); ++e) update.p[e] -= rate * moves[e];
}

ParameterRule rule_of(std::string_view name) {
  if (name == "sgd_update") return by_element<sgd>;
  if (name == "adam_update") return by_element<adam>;
  if (name == "rmsprop_update") return by_element<rmsprop>;
  if (name == "adagrad_update") return by_element<adagrad>;
  if (name == "adadelta_update") return by_element<adadelta>;
  if (name == "adamax_update") return by_element<adamax>;
  if (name == "nadam_update") return by_element<nadam>;
  if (name == "lion_update") return by_element<lion>;
  if (name == "lamb_update") return lamb;
  require(name == "adafactor_update", ErrorCode::kInvalidArgument, name, "has no reference");
  return adafactor;
}

/// Entry `i` of a list of one number a parameter.
double number_of(const Attributes& attributes, std::string_view list, size_t i, double fallback) {
  const auto numbers = attributes.get_or<std::vector<double>>(list, {});
  return numbers.empty() ? fallback : numbers[i];
}

}  // namespace

graph::ReferenceFunction update_reference(std::string_view name) {
  return [rule = rule_of(name)](const OpCall& call, std::span<const TensorSpec> outputs,
                                const std::vector<Values>& inputs) {
    UpdateLayout layout{0, update_state_count(call.op, call.attributes)};
    layout.parameters = (inputs.size() - UpdateLayout::kNumbers) / (2 + layout.states);
    const double step = inputs[UpdateLayout::kStep][0];
    std::vector<Values> result(outputs.size());
    result[0] = {step + 1};
    for (size_t o = 1; o < outputs.size(); ++o) result[o] = inputs[o + UpdateLayout::kFirstAliased];
    for (size_t i = 0; i < layout.parameters; ++i) {
      const double rate =
          inputs[UpdateLayout::kLearningRate][0] * number_of(call.attributes, "rate_factors", i, 1);
      ParameterUpdate update{call.attributes,
                             rate,
                             step,
                             call.inputs[layout.parameter(i)].shape,
                             result[layout.parameter(i) - UpdateLayout::kFirstAliased],
                             inputs[layout.gradient(i)],
                             {}};
      for (size_t k = 0; k < layout.states; ++k)
        update.states.push_back(&result[layout.state(k, i) - UpdateLayout::kFirstAliased]);
      for (double& g : update.g) g *= inputs[UpdateLayout::kGradientFactor][0];
      for (double& p : update.p) p -= rate * number_of(call.attributes, "weight_decays", i, 0) * p;
      rule(update);
    }
    return result;
  };
}

}  // namespace isochron::ops
