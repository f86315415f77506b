// Rows of the optimizer updates: shape rules, samples and the definitions on doubles.
#include "isochron/ops/optimizer_updates.h"

#include <cmath>

#include "isochron/ops/cpu/optimizer_updates.h"
#include "isochron/ops/registry.h"
#include "isochron/ops/rules.h"

namespace isochron::ops {
namespace {

constexpr size_t kMostStates = 3;

UpdateLayout layout_of(const OpCall& call) {
  const size_t states = update_state_count(call.op, call.attributes);
  const size_t lists = 2 + states;
  const size_t tensors = call.inputs.size() - 2;
  if (tensors == 0 || tensors % lists != 0) {
    fail(ErrorCode::kInvalidArgument, call.op.name,
         "takes learning rate, step and {} tensors a parameter, got {} tensors after the first two", lists,
         tensors);
  }
  return {tensors / lists, states};
}

void require_scalar(const OpCall& call, size_t index, DType dtype) {
  require_dtype(call, index, dtype);
  require_rank(call, index, 0);
}

std::vector<TensorSpec> infer_update(const OpCall& call) {
  require_scalar(call, UpdateLayout::kLearningRate, DType::kF64);
  require_scalar(call, UpdateLayout::kStep, DType::kI64);
  check_update_attributes(call.op, call.attributes);
  const UpdateLayout layout = layout_of(call);
  require_same_dtype(call, layout.parameter(0));
  const DType dtype = call.inputs[layout.parameter(0)].dtype;
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    fail(ErrorCode::kDtypeMismatch, call.op.name,
         "parameters must be f32 or f64, got {}; keep them in f32 and cast", dtype_name(dtype));
  }
  for (size_t i = 0; i < layout.parameters; ++i) {
    for (size_t k = 0; k < layout.states; ++k)
      require_same_shape(call, layout.parameter(i), layout.state(k, i));
    require_same_shape(call, layout.parameter(i), layout.gradient(i));
  }
  return {call.inputs.begin() + 1, call.inputs.begin() + static_cast<int64_t>(layout.gradient(0))};
}

/// Everything but the learning rate and the gradients is written back where it was read.
bool update_alias(const OpCall&, int output, int input) { return input == output + 1; }

double update_flops(const OpCall& call) {
  const UpdateLayout layout = layout_of(call);
  double elems = 0;
  for (size_t i = 0; i < layout.parameters; ++i) {
    elems += static_cast<double>(call.inputs[layout.parameter(i)].shape.elems());
  }
  return elems * (2.0 + 4.0 * static_cast<double>(layout.states));
}

/// One element's update, on doubles: changes `states`, returns the new parameter.
using ElementRule = double (*)(const Attributes& attributes, double rate, double step, double p, double g,
                               double* states);

double descend(const Attributes& attributes, double rate, double p, double direction, double* velocity) {
  const double momentum = attributes.get<double>("momentum");
  if (momentum == 0) return p - rate * direction;
  const bool outside = attributes.get<bool>("learning_rate_outside_velocity");
  const double scaled = outside ? direction : rate * direction;
  *velocity = momentum * *velocity + scaled;
  const double move = attributes.get_or("nesterov", false) ? momentum * *velocity + scaled : *velocity;
  return p - (outside ? rate : 1.0) * move;
}

double sgd_element(const Attributes& attributes, double rate, double, double p, double g, double* states) {
  return descend(attributes, rate, p, g, states);
}

double adam_element(const Attributes& attributes, double rate, double step, double p, double g,
                    double* states) {
  const double beta_1 = attributes.get<double>("beta_1");
  const double beta_2 = attributes.get<double>("beta_2");
  const double epsilon = attributes.get<double>("epsilon");
  states[0] += (g - states[0]) * (1 - beta_1);
  states[1] += (g * g - states[1]) * (1 - beta_2);
  double v = states[1];
  if (attributes.get<bool>("amsgrad")) v = states[2] = std::max(states[2], v);
  const double correction_1 = 1 - std::pow(beta_1, step + 1);
  const double correction_2 = std::sqrt(1 - std::pow(beta_2, step + 1));
  if (attributes.get<bool>("epsilon_after_correction")) {
    return p - rate / correction_1 * states[0] / (std::sqrt(v) / correction_2 + epsilon);
  }
  return p - rate * correction_2 / correction_1 * states[0] / (std::sqrt(v) + epsilon);
}

double rmsprop_element(const Attributes& attributes, double rate, double, double p, double g,
                       double* states) {
  const double rho = attributes.get<double>("rho");
  const double epsilon = attributes.get<double>("epsilon");
  double square = states[0] = rho * states[0] + (1 - rho) * g * g;
  double* velocity = states + 1;
  if (attributes.get<bool>("centered")) {
    states[1] = rho * states[1] + (1 - rho) * g;
    square = std::max(square - states[1] * states[1], 0.0);
    ++velocity;
  }
  const double root = attributes.get<bool>("epsilon_outside_root") ? std::sqrt(square) + epsilon
                                                                   : std::sqrt(square + epsilon);
  return descend(attributes, rate, p, g / root, velocity);
}

bool decays(const Attributes& attributes, size_t parameter) {
  const std::string undecayed = attributes.get_or<std::string>("undecayed", "");
  return parameter >= undecayed.size() || undecayed[parameter] != '1';
}

graph::ReferenceFunction update_reference(ElementRule rule) {
  return [rule](const OpCall& call, std::span<const TensorSpec> outputs,
                const std::vector<std::vector<double>>& inputs) {
    const UpdateLayout layout = layout_of(call);
    const double rate = inputs[UpdateLayout::kLearningRate][0];
    const double step = inputs[UpdateLayout::kStep][0];
    std::vector<std::vector<double>> result(outputs.size());
    result[0] = {step + 1};
    for (size_t o = 1; o < outputs.size(); ++o) result[o] = inputs[o + 1];
    for (size_t i = 0; i < layout.parameters; ++i) {
      std::vector<double>& p = result[layout.parameter(i) - 1];
      for (size_t e = 0; e < p.size(); ++e) {
        double states[kMostStates] = {};
        for (size_t k = 0; k < layout.states; ++k) states[k] = result[layout.state(k, i) - 1][e];
        if (decays(call.attributes, i))
          p[e] -= rate * call.attributes.get_or<double>("weight_decay", 0.0) * p[e];
        p[e] = rule(call.attributes, rate, step, p[e], inputs[layout.gradient(i)][e], states);
        for (size_t k = 0; k < layout.states; ++k) result[layout.state(k, i) - 1][e] = states[k];
      }
    }
    return result;
  };
}

/// Inputs for parameters of `shapes`, in the middle of a run: states in [0, 1].
OpSample update_sample(const OpDef& op, const Attributes& attributes, std::initializer_list<Shape> shapes) {
  OpSample sample;
  sample.attributes = attributes;
  sample.inputs.push_back({{}, 0, 0, DType::kF64, {0.05}});
  sample.inputs.push_back({{}, 0, 0, DType::kI64, {6}});
  for (const Shape& shape : shapes) sample.inputs.push_back({shape});
  for (size_t k = 0; k < update_state_count(op, attributes); ++k) {
    // A first moment (a) stays below the second (v), so that v - a a is no difference of equals.
    for (const Shape& shape : shapes)
      sample.inputs.push_back({shape, k == 0 ? 0.5 : 0.1, k == 0 ? 1.0 : 0.4});
  }
  for (const Shape& shape : shapes) sample.inputs.push_back({shape});
  return sample;
}

void add_update(graph::Registry& registry, std::string_view name, std::string_view summary, ElementRule rule,
                const std::vector<Attributes>& variants) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.min_inputs = 4;
  op.max_inputs = -1;
  op.infer = infer_update;
  op.prepare = prepare_optimizer_update;
  op.may_alias = update_alias;
  op.flops = update_flops;
  op.reference = update_reference(rule);
  for (const Attributes& attributes : variants) {
    op.samples.push_back(update_sample(op, attributes, {{3, 5}, {7}, {}}));
    op.samples.push_back(update_sample(op, attributes, {{2, 33}}));
  }
  op.samples.push_back(update_sample(op, variants[0], {{0}, {300, 300}}));
  const TensorSpec rate{DType::kF64, {}};
  const TensorSpec step{DType::kI64, {}};
  const TensorSpec p{DType::kF32, {2, 3}};
  const size_t states = update_state_count(op, variants[0]);
  const auto call = [&](TensorSpec r, TensorSpec s, TensorSpec parameter, TensorSpec gradient) {
    std::vector<TensorSpec> inputs = {r, s, parameter};
    inputs.insert(inputs.end(), states, parameter);
    inputs.push_back(gradient);
    return inputs;
  };
  op.errors = {
      {call(rate, step, p, {DType::kF32, {3, 2}}), variants[0], ErrorCode::kShapeMismatch},
      {call(rate, step, p, {DType::kF64, {2, 3}}), variants[0], ErrorCode::kDtypeMismatch},
      {call({DType::kF32, {}}, step, p, p), variants[0], ErrorCode::kDtypeMismatch},
      {call(rate, {DType::kI64, {1}}, p, p), variants[0], ErrorCode::kShapeMismatch},
      {call(rate, step, {DType::kI32, {2}}, {DType::kI32, {2}}), variants[0], ErrorCode::kDtypeMismatch}};
  std::vector<TensorSpec> one_short = call(rate, step, p, p);
  one_short.insert(one_short.end(), states + 1, p);
  op.errors.push_back({one_short, variants[0], ErrorCode::kInvalidArgument});
  registry.add(std::move(op));
}

void check_decay(const OpDef& op, const Attributes& attributes, std::string_view name) {
  const double value = attributes.get_or<double>(name, 0.0);
  require(value >= 0 && value < 1, ErrorCode::kInvalidArgument, op.name, "{} must lie in [0, 1), got {}",
          name, value);
}

}  // namespace

size_t update_state_count(const OpDef& op, const Attributes& attributes) {
  const size_t velocity = attributes.get_or<double>("momentum", 0.0) > 0 ? 1 : 0;
  if (op.name == "sgd_update") return velocity;
  if (op.name == "adam_update") return attributes.get<bool>("amsgrad") ? 3 : 2;
  return 1 + velocity + (attributes.get<bool>("centered") ? 1 : 0);
}

void check_update_attributes(const OpDef& op, const Attributes& attributes) {
  for (const std::string_view name : {"momentum", "beta_1", "beta_2", "rho"})
    check_decay(op, attributes, name);
  const double weight_decay = attributes.get_or<double>("weight_decay", 0.0);
  require(weight_decay >= 0 && std::isfinite(weight_decay), ErrorCode::kInvalidArgument, op.name,
          "the weight decay must be >= 0, got {}", weight_decay);
  const double epsilon = attributes.get_or<double>("epsilon", 0.0);
  require(epsilon >= 0 && std::isfinite(epsilon), ErrorCode::kInvalidArgument, op.name,
          "epsilon must be >= 0, got {}", epsilon);
  require(!attributes.get_or("nesterov", false) || attributes.get<double>("momentum") > 0,
          ErrorCode::kInvalidArgument, op.name, "nesterov needs a momentum above 0");
}

void register_optimizers(graph::Registry& registry) {
  const auto sgd = [](double momentum, bool nesterov, bool outside) {
    return Attributes{
        {"momentum", momentum}, {"nesterov", nesterov}, {"learning_rate_outside_velocity", outside}};
  };
  add_update(registry, "sgd_update", "stochastic gradient descent, also with momentum, on all parameters",
             sgd_element,
             {sgd(0, false, false), sgd(0.9, false, false), sgd(0.9, true, false), sgd(0.9, false, true),
              sgd(0.9, true, true)});
  const auto decayed = [](Attributes attributes, const char* undecayed) {
    attributes.set("weight_decay", 0.1);
    attributes.set("undecayed", std::string(undecayed));
    return attributes;
  };
  const auto adam = [](bool amsgrad, bool after) {
    return Attributes{{"beta_1", 0.9},
                      {"beta_2", 0.99},
                      {"epsilon", 1e-2},
                      {"amsgrad", amsgrad},
                      {"epsilon_after_correction", after}};
  };
  add_update(registry, "adam_update", "Adam and AMSGrad on all parameters", adam_element,
             {adam(false, false), adam(true, false), adam(false, true), adam(true, true),
              decayed(adam(false, true), "010")});
  const auto rmsprop = [](double momentum, bool centered, bool outside) {
    return Attributes{{"rho", 0.9},
                      {"momentum", momentum},
                      {"epsilon", 1e-2},
                      {"centered", centered},
                      {"epsilon_outside_root", outside},
                      {"learning_rate_outside_velocity", outside}};
  };
  add_update(registry, "rmsprop_update", "RMSprop, also centered and with momentum, on all parameters",
             rmsprop_element,
             {rmsprop(0, false, false), rmsprop(0.9, false, false), rmsprop(0, true, false),
              rmsprop(0.9, true, false), rmsprop(0, false, true), rmsprop(0.9, true, true)});
}

}  // namespace isochron::ops
