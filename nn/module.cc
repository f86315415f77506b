#include "isochron/nn/module.h"

#include <algorithm>

#include "isochron/ops/creation.h"

namespace isochron::nn {
namespace {

thread_local bool t_training = true;

/// Calls `f(name, child)` for every direct child.
template <typename F>
class ChildVisitor final : public Members {
 public:
  explicit ChildVisitor(F f) : f_(std::move(f)) {}

 private:
  void on_child(std::string_view name, Module& child) override { f_(name, child); }
  void on_variable(std::string_view, const Variable&, bool) override {}
  F f_;
};

template <typename F>
void for_each_child(Module& module, F f) {
  ChildVisitor<F> visitor(std::move(f));
  module.members(visitor);
}

/// Collects variables through all levels, each once.
class Collector final : public Members {
 public:
  explicit Collector(bool parameters) : parameters_(parameters) {}
  Module::NamedVariables found;

 private:
  void on_child(std::string_view name, Module& child) override {
    const size_t length = path_.size();
    path_ += fmt::format("{}/", name);
    child.members(*this);
    path_.resize(length);
  }
  void on_variable(std::string_view name, const Variable& variable, bool parameter) override {
    if (parameter != parameters_) return;
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const auto& entry) { return entry.second == variable; });
    if (!known) found.emplace_back(fmt::format("{}{}", path_, name), variable);
  }

  bool parameters_;
  std::string path_;
};

Module::NamedVariables collect(Module& module, bool parameters) {
  Collector collector(parameters);
  module.members(collector);
  return std::move(collector.found);
}

std::vector<Variable> without_names(const Module::NamedVariables& named) {
  std::vector<Variable> result;
  result.reserve(named.size());
  for (const auto& [name, variable] : named) result.push_back(variable);
  return result;
}

}  // namespace

Module::Scope Module::enter() {
  if (!children_named_) {
    for_each_child(*this, [this](std::string_view name, Module& child) {
      child.name_ = name;
      child.path_ = fmt::format("{}{}/", path_, name);
    });
    children_named_ = true;
  }
  return name_.empty() ? nullptr : std::make_unique<graph::NameScope>(name_);
}

Tensor Module::operator()(const Tensor& x) {
  require(x.defined(), ErrorCode::kInvalidArgument, kind(), "the input is undefined");
  const Scope scope = enter();
  return forward(x);
}

TensorSpec Module::build(const TensorSpec& input) {
  const graph::EagerScope eager;
  graph::Graph graph;
  graph::Capture capture(graph);
  return (*this)(graph::Graph::tensor_of(graph.add_input(input))).spec();
}

Module::NamedVariables Module::named_parameters() { return collect(*this, true); }
Module::NamedVariables Module::named_buffers() { return collect(*this, false); }
std::vector<Variable> Module::parameters() { return without_names(named_parameters()); }
std::vector<Variable> Module::buffers() { return without_names(named_buffers()); }

std::vector<std::pair<std::string, Module*>> Module::children() {
  std::vector<std::pair<std::string, Module*>> result;
  for_each_child(*this, [&](std::string_view name, Module& child) { result.emplace_back(name, &child); });
  return result;
}

int64_t Module::parameter_count() {
  int64_t count = 0;
  for (const Variable& parameter : parameters()) count += parameter.elems();
  return count;
}

void Module::set_trainable(bool trainable) {
  trainable_ = trainable;
  for (const Variable& parameter : parameters()) parameter.set_trainable(trainable);
  for_each_child(*this, [=](std::string_view, Module& child) { child.set_trainable(trainable); });
}

Variable Module::make_parameter(std::string_view name, const TensorSpec& spec,
                                const Initializer& initializer) {
  Rng rng = next_initializer_rng();
  return Variable(from_vector(spec.shape, initializer(spec.shape, rng), spec.dtype),
                  fmt::format("{}{}", path_, name), trainable_);
}

bool training() { return t_training; }
TrainingScope::TrainingScope(bool training) : previous_(std::exchange(t_training, training)) {}
TrainingScope::~TrainingScope() { t_training = previous_; }

}  // namespace isochron::nn
