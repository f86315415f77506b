#include "isochron/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/apply.h"
#include "isochron/graph/capture.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/optimizer_updates.h"
#include "isochron/ops/registry.h"

namespace isochron::optim {
namespace {

void check_learning_rate(double learning_rate) {
  require(std::isfinite(learning_rate) && learning_rate >= 0, ErrorCode::kInvalidArgument, "optimizer",
          "the learning rate must be finite and >= 0, got {}", learning_rate);
}

std::vector<Variable> trainable_of(std::span<const Variable> parameters) {
  std::vector<Variable> result;
  for (const Variable& parameter : parameters) {
    require(parameter.defined(), ErrorCode::kInvalidArgument, "optimizer", "a parameter is undefined");
    require(std::find(result.begin(), result.end(), parameter) == result.end(), ErrorCode::kInvalidArgument,
            "optimizer", "parameter '{}' is listed twice", parameter.name());
    if (parameter.trainable()) result.push_back(parameter);
  }
  require(!result.empty(), ErrorCode::kInvalidArgument, "optimizer",
          "none of the {} parameters is trainable; a model builds its parameters at its first call, so list "
          "them after it",
          parameters.size());
  return result;
}

}  // namespace

Optimizer::Optimizer(std::string_view update_op, graph::Attributes attributes,
                     std::vector<std::string> states, double learning_rate, WeightDecay weight_decay)
    : op_(&ops::row(update_op)),
      attributes_(std::move(attributes)),
      weight_decay_(std::move(weight_decay)),
      state_names_(std::move(states)) {
  if (weight_decay_.rate != 0) attributes_.set("weight_decay", weight_decay_.rate);
  ops::check_update_attributes(*op_, attributes_);
  check_learning_rate(learning_rate);
  learning_rate_ = Variable(full({}, learning_rate, DType::kF64), "learning_rate", false);
  step_ = Variable(full({}, 0, DType::kI64), "step", false);
}

void Optimizer::minimize(const Tensor& loss, std::span<const Variable> parameters) {
  const std::vector<Variable> trainable = trainable_of(parameters);
  const std::vector<Tensor> sources(trainable.begin(), trainable.end());
  if (graph::Capture::current()) {
    apply(trainable, gradients(loss, sources));
    return;
  }
  GradientTape* tape = GradientTape::current();
  require(tape != nullptr, ErrorCode::kCaptureViolation, "minimize",
          "nothing recorded how the loss came about; compute it in a captured function, or while a "
          "GradientTape lives");
  apply(trainable, tape->gradient(loss, sources));
}

void Optimizer::apply(std::span<const Variable> parameters, std::span<const Tensor> gradients) {
  require(parameters.size() == gradients.size(), ErrorCode::kInvalidArgument, "optimizer",
          "{} parameters, {} gradients", parameters.size(), gradients.size());
  const std::vector<Variable> trainable = trainable_of(parameters);
  const ops::UpdateLayout layout{trainable.size(), state_names_.size()};
  std::vector<Tensor> inputs(layout.gradient(trainable.size()));
  for (size_t i = 0, at = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trainable()) continue;
    require(gradients[i].defined(), ErrorCode::kInvalidArgument, "optimizer",
            "the loss doesn't depend on parameter '{}'; freeze it with set_trainable(false), or leave it out",
            parameters[i].name());
    if (!(gradients[i].spec() == parameters[i].spec())) {
      fail(gradients[i].dtype() == parameters[i].dtype() ? ErrorCode::kShapeMismatch
                                                         : ErrorCode::kDtypeMismatch,
           "optimizer", "parameter '{}' is {}, its gradient {}", parameters[i].name(),
           parameters[i].spec().str(), gradients[i].spec().str());
    }
    inputs[layout.parameter(at)] = parameters[i];
    inputs[layout.gradient(at++)] = gradients[i];
  }
  if (entries_.empty()) make_states(trainable);
  std::vector<Variable> targets = {step_};
  targets.insert(targets.end(), trainable.begin(), trainable.end());
  targets.resize(layout.gradient(0) - 1);
  for (size_t i = 0; i < trainable.size(); ++i) {
    const Entry& entry = entry_of(trainable[i], i);
    for (size_t k = 0; k < layout.states; ++k) {
      inputs[layout.state(k, i)] = entry.states[k];
      targets[layout.state(k, i) - 1] = entry.states[k];
    }
  }
  inputs[ops::UpdateLayout::kLearningRate] = learning_rate_;
  inputs[ops::UpdateLayout::kStep] = step_;
  // Tapes have no use for the update: eager, it passes them by.
  const std::vector<Tensor> results = graph::Capture::current()
                                          ? graph::apply(*op_, inputs, attributes_for(trainable))
                                          : graph::apply_eager(*op_, inputs, attributes_for(trainable));
  for (size_t i = 0; i < targets.size(); ++i) targets[i].assign(results[i]);
}

graph::Attributes Optimizer::attributes_for(std::span<const Variable> parameters) const {
  graph::Attributes attributes = attributes_;
  if (weight_decay_.rate == 0 || !weight_decay_.applies) return attributes;
  std::string undecayed;
  for (const Variable& parameter : parameters) undecayed += weight_decay_.applies(parameter) ? '0' : '1';
  attributes.set("undecayed", std::move(undecayed));
  return attributes;
}

void Optimizer::make_states(std::span<const Variable> parameters) {
  std::vector<Entry> entries;
  for (const Variable& parameter : parameters) {
    Entry entry{parameter, {}};
    const Tensor zero = zeros(parameter.shape(), parameter.dtype());
    for (const std::string& name : state_names_) {
      entry.states.emplace_back(zero, fmt::format("{}/{}", parameter.name(), name), false);
    }
    entries.push_back(std::move(entry));
  }
  entries_ = std::move(entries);
}

const Optimizer::Entry& Optimizer::entry_of(const Variable& parameter, size_t hint) const {
  if (hint < entries_.size() && entries_[hint].parameter == parameter) return entries_[hint];
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.parameter == parameter; });
  require(found != entries_.end(), ErrorCode::kInvalidArgument, "optimizer",
          "parameter '{}' was not among the {} that the first step updated; give all of them to the first "
          "step, or use a second optimizer",
          parameter.name(), entries_.size());
  return *found;
}

double Optimizer::learning_rate() const { return learning_rate_.tensor().item<double>(); }

void Optimizer::set_learning_rate(double learning_rate) {
  check_learning_rate(learning_rate);
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, "set_learning_rate",
          "a number would be set at every replay; call it between steps, or compute the rate in ops and "
          "assign it to learning_rate_slot()");
  learning_rate_.assign(full({}, learning_rate, DType::kF64));
}

int64_t Optimizer::step_count() const { return step_.tensor().item<int64_t>(); }

std::vector<Variable> Optimizer::state() const {
  std::vector<Variable> result = {learning_rate_, step_};
  for (const Entry& entry : entries_) {
    result.insert(result.end(), entry.states.begin(), entry.states.end());
  }
  return result;
}

size_t Optimizer::state_bytes() const {
  size_t bytes = 0;
  for (const Entry& entry : entries_) {
    for (const Variable& state : entry.states) bytes += state.size_bytes();
  }
  return bytes;
}

}  // namespace isochron::optim
