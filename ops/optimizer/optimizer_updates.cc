// Rows of the optimizer updates: shape rules and samples. The definitions on doubles are in
// ops/optimizer/optimizer_references.cc.
#include "isochron/ops/optimizer/optimizer_updates.h"

#include <cmath>

#include "isochron/ops/optimizer/optimizer_decompositions.h"
#include "isochron/ops/optimizer/optimizer_references.h"
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
         "takes gradient factor, learning rate, step and {} tensors a parameter, got {} tensors after the "
         "first {}",
         lists, tensors, UpdateLayout::kNumbers);
  }
  return {tensors / lists, states};
}

void require_scalar(const OpCall& call, size_t index, DType dtype) {
  require_dtype(call, index, dtype);
  require_rank(call, index, 0);
}

/// A list of one number a parameter, or none.
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
  for (size_t i = 0; i < layout.parameters; ++i) {
    const Shape& parameter = call.inputs[layout.parameter(i)].shape;
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

/// What is written back where it was read: all but the numbers before the step, and the gradients.
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
OpSample update_sample(const OpDef& op, const Attributes& attributes, const std::vector<Shape>& shapes) {
  OpSample sample;
  sample.attributes = attributes;
  sample.inputs.push_back({{}, 0, 0, DType::kF64, {0.5}});
  sample.inputs.push_back({{}, 0, 0, DType::kF64, {0.05}});
  sample.inputs.push_back({{}, 0, 0, DType::kI64, {6}});
  for (const Shape& shape : shapes) sample.inputs.push_back({shape});
  for (size_t k = 0; k < update_state_count(op, attributes); ++k) {
    // A first moment (a) stays below the second (v), so that v - a a is no difference of equals.
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

/// Null: the rule is applied to each element alone.
using Decompose = std::vector<Tensor> (*)(const OpCall&, std::span<const Tensor>);

void add_update(graph::Registry& registry, std::string_view name, std::string_view summary,
                Decompose decompose, const std::vector<Attributes>& variants) {
  OpDef op;
  op.name = name;
  op.summary = std::string(summary) + ", on all parameters";
  op.min_inputs = static_cast<int>(UpdateLayout::kNumbers) + 2;
  op.max_inputs = -1;
  op.infer = infer_update;
  op.decompose = decompose;
  op.may_alias = update_alias;
  op.flops = update_flops;
  op.reference = update_reference(name);
  for (const Attributes& attributes : variants) {
    op.samples.push_back(update_sample(op, attributes, {{3, 5}, {7}, {}}));
    op.samples.push_back(update_sample(op, attributes, {{2, 33}}));
  }
  op.samples.push_back(update_sample(op, variants[0], {{0}, {300, 300}, {2, 3, 4}}));
  Attributes grouped = variants[0];
  grouped.set("rate_factors", Numbers{1, 2, 0.5});
  grouped.set("weight_decays", Numbers{0.1, 0, 0.2});
  op.samples.push_back(update_sample(op, grouped, {{3, 5}, {7}, {}}));
  op.errors = update_errors(op, variants[0]);
  registry.add(std::move(op));
}

void check_decay(const OpDef& op, const Attributes& attributes, std::string_view name) {
  const double value = attributes.get_or<double>(name, 0.0);
  require(value >= 0 && value < 1, ErrorCode::kInvalidArgument, op.name, "{} must lie in [0, 1), got {}",
          name, value);
}

void add_descents(graph::Registry& registry) {
  const auto sgd = [](double momentum, bool nesterov, bool outside) {
    return Attributes{
        {"momentum", momentum}, {"nesterov", nesterov}, {"learning_rate_outside_velocity", outside}};
  };
  add_update(registry, "sgd_update", "stochastic gradient descent, also with momentum", nullptr,
             {sgd(0, false, false), sgd(0.9, false, false), sgd(0.9, true, false), sgd(0.9, false, true),
              sgd(0.9, true, true)});
  const auto rmsprop = [](double momentum, bool centered, bool outside) {
    return Attributes{{"rho", 0.9},
                      {"momentum", momentum},
                      {"epsilon", 1e-2},
                      {"centered", centered},
                      {"epsilon_outside_root", outside},
                      {"learning_rate_outside_velocity", outside}};
  };
  add_update(registry, "rmsprop_update", "RMSprop, also centered and with momentum", nullptr,
             {rmsprop(0, false, false), rmsprop(0.9, false, false), rmsprop(0, true, false),
              rmsprop(0.9, true, false), rmsprop(0, false, true), rmsprop(0.9, true, true)});
  const auto adagrad = [](bool outside) {
    return Attributes{{"epsilon", 1e-2}, {"epsilon_outside_root", outside}};
  };
  add_update(registry, "adagrad_update", "Adagrad", nullptr, {adagrad(false), adagrad(true)});
  add_update(registry, "adadelta_update", "Adadelta", nullptr, {Attributes{{"rho", 0.9}, {"epsilon", 1e-2}}});
  add_update(registry, "lion_update", "Lion", nullptr, {Attributes{{"beta_1", 0.9}, {"beta_2", 0.99}}});
}

/// Adam and its kin.
void add_adams(graph::Registry& registry) {
  const Attributes moments{{"beta_1", 0.9}, {"beta_2", 0.99}, {"epsilon", 1e-2}};
  const auto with = [&moments](std::string_view name, graph::AttributeValue value) {
    Attributes attributes = moments;
    attributes.set(name, std::move(value));
    return attributes;
  };
  const auto adam = [&](bool amsgrad, bool after) {
    Attributes attributes = with("amsgrad", amsgrad);
    attributes.set("epsilon_after_correction", after);
    return attributes;
  };
  add_update(registry, "adam_update", "Adam and AMSGrad", nullptr,
             {adam(false, false), adam(true, false), adam(false, true), adam(true, true)});
  add_update(registry, "adamax_update", "Adamax", nullptr,
             {with("epsilon_within_norm", false), with("epsilon_within_norm", true)});
  add_update(registry, "nadam_update", "Nadam", nullptr,
             {with("momentum_decay", 1.0), with("momentum_decay", 0.004)});
  add_update(registry, "lamb_update", "LAMB", decompose_lamb_update, {moments});
}

}  // namespace

bool is_optimizer_update(const OpDef& op) { return op.infer == infer_update; }

size_t update_state_count(const OpDef& op, const Attributes& attributes) {
  const size_t velocity = attributes.get_or<double>("momentum", 0.0) > 0 ? 1 : 0;
  if (op.name == "sgd_update") return velocity;
  if (op.name == "rmsprop_update") return 1 + velocity + (attributes.get<bool>("centered") ? 1 : 0);
  if (op.name == "adagrad_update" || op.name == "lion_update") return 1;
  return attributes.get_or("amsgrad", false) ? 3 : 2;
}

Shape update_state_shape(const OpDef& op, const Shape& parameter, size_t k) {
  if (op.name != "adafactor_update") return parameter;
  const int rank = parameter.rank();
  if (rank < 2) return k == 0 ? parameter : Shape{0};
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis != (k == 0 ? rank - 1 : rank - 2)) shape.push_back(parameter[axis]);
  }
  return shape;
}

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
}

void register_optimizers(graph::Registry& registry) {
  add_descents(registry);
  add_adams(registry);
  add_update(
      registry, "adafactor_update", "Adafactor", decompose_adafactor_update,
      {Attributes{
          {"beta_2_decay", -0.8}, {"epsilon_1", 1e-30}, {"epsilon_2", 1e-3}, {"clip_threshold", 1.0}}});
}

}  // namespace isochron::ops
