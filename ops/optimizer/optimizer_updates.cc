#include "isochron/ops/optimizer/optimizer_updates.h"

#include <cmath>

#include "isochron/ops/optimizer/update_parameters.h"
#include "isochron/ops/optimizer/update_rule.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron::ops {
namespace {

using Numbers = std::vector<double>;

UpdateLayout layout_of(const OpCall& call) {
  const size_t states = update_state_count(call.op, call.attributes);
  const size_t lists = 2 + states;
  const size_t tensors = call.inputs.size() - UpdateLayout::kNumbers;
  if (tensors == 0 || tensors % lists != 0) {
    fail(ErrorCode::kInvalidArgument, call.op.name,
         "takes gradient factor, learning rate, step and {} tensors per parameter, got {} tensors after the "
         "first {}",
         lists, tensors, UpdateLayout::kNumbers);
  }
  return {tensors / lists, states};
}

void require_scalar(const OpCall& call, size_t index, DType dtype) {
  require_dtype(call, index, dtype);
  require_rank(call, index, 0);
}

/// Checks that a list has one number per parameter, or none.
void check_list(const OpCall& call, std::string_view name, size_t parameters) {
  const auto numbers = call.attributes.get_or<Numbers>(name, {});
  require(numbers.empty() || numbers.size() == parameters, ErrorCode::kInvalidArgument, call.op.name,
          "{} holds {} numbers for {} parameters", name, numbers.size(), parameters);
  for (const double number : numbers) {
    require(number >= 0 && std::isfinite(number), ErrorCode::kInvalidArgument, call.op.name,
            "{} must be finite and >= 0, got {}", name, number);
  }
}

std::vector<TensorSpec> infer_update(const OpCall& call) {
  require_scalar(call, UpdateLayout::kGradientFactor, DType::kF64);
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
  for (const std::string_view list : {"rate_factors", "weight_decays"})
    check_list(call, list, layout.parameters);
  const int min_rank = optimizer_rule(call.op.name).min_rank;
  for (size_t i = 0; i < layout.parameters; ++i) {
    const Shape& parameter = call.inputs[layout.parameter(i)].shape;
    require(parameter.rank() >= min_rank, ErrorCode::kShapeMismatch, call.op.name,
            "a parameter needs {} axes at least, got {}; give others to another optimizer", min_rank,
            parameter.str());
    for (size_t k = 0; k < layout.states; ++k) {
      const Shape expected = update_state_shape(call.op, parameter, k);
      const TensorSpec& state = call.inputs[layout.state(k, i)];
      require(state.shape == expected, ErrorCode::kShapeMismatch, call.op.name,
              "state {} of a parameter {} must be {}, got {}", k, parameter.str(), expected.str(),
              state.str());
    }
    require_same_shape(call, layout.parameter(i), layout.gradient(i));
  }
  return {call.inputs.begin() + UpdateLayout::kFirstAliased,
          call.inputs.begin() + static_cast<int64_t>(layout.gradient(0))};
}

/// Outputs may overwrite the inputs that they update: all except the gradient factor, the learning rate and
/// the gradients.
bool update_alias(const OpCall&, int output, int input) {
  return input == output + static_cast<int>(UpdateLayout::kFirstAliased);
}

double update_flops(const OpCall& call) {
  const UpdateLayout layout = layout_of(call);
  double elems = 0;
  for (size_t i = 0; i < layout.parameters; ++i) {
    elems += static_cast<double>(call.inputs[layout.parameter(i)].shape.elems());
  }
  return elems * (2.0 + 4.0 * static_cast<double>(layout.states));
}

/// Inputs for parameters of `shapes`, in the middle of a run: states in [0, 1].
OpSample update_sample(const OpDef& op, const Attributes& attributes, std::vector<Shape> shapes) {
  for (Shape& shape : shapes) {
    while (shape.rank() < optimizer_rule(op.name).min_rank) shape.push_back(shape.rank() == 0 ? 1 : 2);
  }
  OpSample sample;
  sample.attributes = attributes;
  sample.inputs.push_back({{}, 0, 0, DType::kF64, {0.5}});
  sample.inputs.push_back({{}, 0, 0, DType::kF64, {0.05}});
  sample.inputs.push_back({{}, 0, 0, DType::kI64, {6}});
  for (const Shape& shape : shapes) sample.inputs.push_back({shape});
  for (size_t k = 0; k < update_state_count(op, attributes); ++k) {
    // A first moment (a) stays below the second (v), so that v - a a doesn't cancel.
    for (const Shape& shape : shapes) {
      sample.inputs.push_back({update_state_shape(op, shape, k), k == 0 ? 0.5 : 0.1, k == 0 ? 1.0 : 0.4});
    }
  }
  for (const Shape& shape : shapes) sample.inputs.push_back({shape});
  return sample;
}

std::vector<ErrorSample> update_errors(const OpDef& op, const Attributes& attributes) {
  const TensorSpec number{DType::kF64, {}};
  const TensorSpec step{DType::kI64, {}};
  const TensorSpec p{DType::kF32, {2, 3}};
  const size_t states = update_state_count(op, attributes);
  const auto call = [&](TensorSpec rate, TensorSpec done, TensorSpec parameter, TensorSpec gradient) {
    std::vector<TensorSpec> inputs = {number, rate, done, parameter};
    for (size_t k = 0; k < states; ++k) {
      inputs.push_back({parameter.dtype, update_state_shape(op, parameter.shape, k)});
    }
    inputs.push_back(gradient);
    return inputs;
  };
  std::vector<TensorSpec> one_short = call(number, step, p, p);
  one_short.insert(one_short.end(), states + 1, p);
  std::vector<TensorSpec> half = call(number, step, p, p);
  half[UpdateLayout::kGradientFactor].dtype = DType::kF32;
  Attributes two_decays = attributes;
  two_decays.set("weight_decays", Numbers{0.1, 0.1});
  std::vector<ErrorSample> errors = {
      {call(number, step, p, {DType::kF32, {3, 2}}), attributes, ErrorCode::kShapeMismatch},
      {call(number, step, p, {DType::kF64, {2, 3}}), attributes, ErrorCode::kDtypeMismatch},
      {call({DType::kF32, {}}, step, p, p), attributes, ErrorCode::kDtypeMismatch},
      {call(number, {DType::kI64, {1}}, p, p), attributes, ErrorCode::kShapeMismatch},
      {call(number, step, {DType::kI32, {2}}, {DType::kI32, {2}}), attributes, ErrorCode::kDtypeMismatch},
      {half, attributes, ErrorCode::kDtypeMismatch},
      {one_short, attributes, ErrorCode::kInvalidArgument},
      {call(number, step, p, p), two_decays, ErrorCode::kInvalidArgument}};
  if (states > 0) {
    std::vector<TensorSpec> misshapen = call(number, step, p, p);
    misshapen[UpdateLayout::kNumbers + 1].shape = {5};
    errors.push_back({misshapen, attributes, ErrorCode::kShapeMismatch});
  }
  return errors;
}

std::vector<Numbers> update_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                      const std::vector<Numbers>& inputs) {
  const OptimizerRule& rule = optimizer_rule(call.op.name);
  const UpdateParameters parameters(call.op, call.attributes, inputs.size());
  const UpdateLayout& layout = parameters.layout;
  const double step = inputs[UpdateLayout::kStep][0];
  std::vector<Numbers> result(outputs.size());
  result[0] = {step + 1};
  for (size_t o = 1; o < outputs.size(); ++o) result[o] = inputs[o + UpdateLayout::kFirstAliased];
  for (size_t i = 0; i < layout.parameters; ++i) {
    const double rate = inputs[UpdateLayout::kLearningRate][0] * parameters.rate_factor(i);
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
    for (double& p : update.p) p -= rate * parameters.weight_decay(i) * p;
    const Numbers before = update.p;
    rule.reference(update);
    if (parameters.rate_factor(i) == 0) update.p = before;  // the existing velocity has no effect either
  }
  return result;
}

OpDef update_row(std::string_view name, const OptimizerRule& rule) {
  OpDef op;
  op.name = name;
  op.summary = std::string(rule.summary) + ", on all parameters";
  op.min_inputs = static_cast<int>(UpdateLayout::kNumbers) + 2;
  op.max_inputs = -1;
  op.infer = infer_update;
  op.decompose = rule.decompose;
  op.may_alias = update_alias;
  op.flops = update_flops;
  op.reference = update_reference;
  for (const Attributes& attributes : rule.variants) {
    op.samples.push_back(update_sample(op, attributes, {{3, 5}, {7}, {}}));
    op.samples.push_back(update_sample(op, attributes, {{2, 33}}));
  }
  const Attributes& usual = rule.variants[0];
  op.samples.push_back(update_sample(
      op, usual, {{0}, rule.definition != nullptr ? Shape{300, 300} : Shape{30, 40}, {2, 3, 4}}));
  Attributes grouped = usual;
  grouped.set("rate_factors", Numbers{2, 0, 0.5});
  grouped.set("weight_decays", Numbers{0.1, 0, 0.2});
  op.samples.push_back(update_sample(op, grouped, {{3, 5}, {7}, {}}));
  op.errors = update_errors(op, usual);
  return op;
}

void check_decay(const OpDef& op, const Attributes& attributes, std::string_view name) {
  const double value = attributes.get_or<double>(name, 0.0);
  require(value >= 0 && value < 1, ErrorCode::kInvalidArgument, op.name, "{} must lie in [0, 1), got {}",
          name, value);
}

}  // namespace

bool is_optimizer_update(const OpDef& op) { return op.infer == infer_update; }

size_t update_state_count(const OpDef& op, const Attributes& attributes) {
  return optimizer_rule(op.name).states(attributes);
}

Shape update_state_shape(const OpDef& op, const Shape& parameter, size_t k) {
  const OptimizerRule& rule = optimizer_rule(op.name);
  return rule.state_shape != nullptr ? rule.state_shape(parameter, k) : parameter;
}

bool update_reads_step(const OpDef& op) { return optimizer_rule(op.name).reads_step; }

void check_update_attributes(const OpDef& op, const Attributes& attributes) {
  for (const std::string_view name : {"momentum", "beta_1", "beta_2", "rho"})
    check_decay(op, attributes, name);
  for (const std::string_view name : {"epsilon", "epsilon_1", "epsilon_2", "momentum_decay"}) {
    const double value = attributes.get_or<double>(name, 0.0);
    require(value >= 0 && std::isfinite(value), ErrorCode::kInvalidArgument, op.name,
            "{} must be >= 0, got {}", name, value);
  }
  require(attributes.get_or<double>("clip_threshold", 1) > 0, ErrorCode::kInvalidArgument, op.name,
          "clip_threshold must be > 0, got {}", attributes.get_or<double>("clip_threshold", 1));
  require(attributes.get_or<double>("beta_2_decay", -1) <= 0, ErrorCode::kInvalidArgument, op.name,
          "beta_2_decay must be <= 0, got {}", attributes.get_or<double>("beta_2_decay", -1));
  require(!attributes.get_or("nesterov", false) || attributes.get<double>("momentum") > 0,
          ErrorCode::kInvalidArgument, op.name, "nesterov needs a momentum above 0");
  const auto number = [&](std::string_view name, double usual) { return attributes.get_or(name, usual); };
  const double minus = number("eta_minus", 0.5), plus = number("eta_plus", 1.2);
  require(0 < minus && minus < 1 && 1 < plus && std::isfinite(plus), ErrorCode::kInvalidArgument, op.name,
          "needs 0 < eta_minus < 1 < eta_plus, got {} and {}", minus, plus);
  const double least = number("min_step", 1e-6), most = number("max_step", 50);
  require(0 < least && least <= most && std::isfinite(most), ErrorCode::kInvalidArgument, op.name,
          "needs 0 < min_step <= max_step, got {} and {}", least, most);
}

void register_optimizers(graph::Registry& registry) {
  for (const auto& [name, rule] : optimizer_rules()) registry.add(update_row(name, rule));
}

}  // namespace isochron::ops
