// Module: the contract of layers and of users' own models. A module owns parameters and other modules, lists
// them under names in `members`, and computes in `forward`:
//
//   class Net : public nn::Module {
//    public:
//     Tensor forward(const Tensor& x) override { return out_(hidden_(x)) * scale_; }
//     void members(nn::Members& list) override { list("hidden", hidden_)("out", out_)("scale", scale_); }
//
//    private:
//     nn::Dense hidden_{64, nn::Activation::kRelu};
//     nn::Dense out_{1};
//     Variable scale_{ones({1}), "scale"};
//   };
//
// Layers build their parameters at their first call, when they learn their input's size; also inside a
// capture, whose graph then refers to them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/graph/capture.h"
#include "isochron/graph/variable.h"
#include "isochron/nn/initializers.h"

namespace isochron::nn {

class Module;

/// What `Module::members` tells its members to.
class Members {
 public:
  Members& operator()(std::string_view name, Module& child) {
    on_child(name, child);
    return *this;
  }
  /// A parameter; none yet where it is undefined.
  Members& operator()(std::string_view name, const Variable& parameter) {
    if (parameter.defined()) on_variable(name, parameter, true);
    return *this;
  }
  /// State that is saved with the model but never differentiated, such as running means.
  Members& buffer(std::string_view name, const Variable& variable) {
    if (variable.defined()) on_variable(name, variable, false);
    return *this;
  }

 protected:
  ~Members() = default;
  virtual void on_child(std::string_view name, Module& child) = 0;
  virtual void on_variable(std::string_view name, const Variable& variable, bool parameter) = 0;
};

class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Tensor forward(const Tensor& x) = 0;
  /// Names everything this module owns, always in the same order.
  virtual void members(Members&) {}
  /// What a Sequential calls it: "dense".
  virtual std::string_view kind() const { return "module"; }
  /// Whether its result has gone through an activation that could be a layer of its own after it.
  virtual bool has_activation() const { return false; }

  /// `forward` under this module's name, which its nodes then carry.
  Tensor operator()(const Tensor& x);
  /// Builds the parameters for inputs of `input` without computing; returns the result's spec.
  TensorSpec build(const TensorSpec& input);

  using NamedVariables = std::vector<std::pair<std::string, Variable>>;
  /// Parameters built so far, those of children included, each once; names are paths: "dense_1/kernel".
  NamedVariables named_parameters();
  std::vector<Variable> parameters();
  NamedVariables named_buffers();
  std::vector<Variable> buffers();
  /// The direct children.
  std::vector<std::pair<std::string, Module*>> children();
  /// Elements of all parameters.
  int64_t parameter_count();

  /// Freezes or thaws all parameters, also those still to be built.
  void set_trainable(bool trainable);
  bool trainable() const { return trainable_; }

 protected:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  /// Open while this module computes. Modules whose call isn't `forward(x)` begin theirs with
  /// `const Scope scope = enter();`.
  using Scope = std::unique_ptr<graph::NameScope>;
  Scope enter();
  /// A parameter of this module, filled by `initializer`; made at once, also inside a capture.
  Variable make_parameter(std::string_view name, const TensorSpec& spec, const Initializer& initializer);

 private:
  std::string name_;  // among its parent's members; empty for a root
  std::string path_;  // with a closing '/', for the names of parameters
  bool children_named_ = false;
  bool trainable_ = true;
};

/// Whether layers such as Dropout act as in training. True by default, so that a step written by hand trains;
/// evaluate under `nn::TrainingScope scope(false);`. A capture keeps what held while it was traced.
bool training();
class TrainingScope {
 public:
  explicit TrainingScope(bool training);
  ~TrainingScope();
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;

 private:
  bool previous_;
};

}  // namespace isochron::nn
