// Module: the base class of layers and of user-defined models. A module owns parameters and other modules,
// lists them by name in `members`, and computes in `forward`:
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
// A module with several inputs overrides the `forward` with that many inputs, and is called and built the
// same way: `decoder(x, memory)`, `decoder.build(spec_of_x, spec_of_memory)`.
//
// Layers build their parameters on their first call, when their input's size is known. This also works inside
// a capture; its graph then refers to the new parameters.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/graph/capture/capture.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/nn/module/initializers.h"

namespace isochron::nn {

class Module;

/// The list that `Module::members` fills with the members of its module.
class Members {
 public:
  /// What a variable is to its module.
  enum class Role : uint8_t { kParameter, kBuffer, kAverage };
  struct Member {
    std::string name;
    Module* child = nullptr;
    Variable variable = {};  // undefined: a child, or not built yet
    Role role = Role::kParameter;
  };

  /// The members of `module`. Errors name `path` ("encoder/"; empty for a root). Throws kInvalidArgument if a
  /// name is listed twice, is empty, begins or ends with a '/', or could be the path of a child's member, and
  /// if modules are nested more than 256 deep, as happens if a module is a member of itself.
  explicit Members(Module& module, std::string_view path = {});
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  Members& operator()(std::string_view name, Module& child) { return add({std::string(name), &child}); }
  /// A parameter. An undefined variable means that the parameter isn't built yet.
  Members& operator()(std::string_view name, const Variable& parameter) {
    return add({std::string(name), nullptr, parameter});
  }
  /// State that is saved with the model but never trained, such as running means. Listing a variable here
  /// freezes it (Variable::set_trainable), so the module need not do so itself.
  Members& buffer(std::string_view name, const Variable& variable) {
    return add_frozen(name, variable, Role::kBuffer);
  }
  /// A buffer that holds averages over the training batches. If several ranks train together, each on its own
  /// batches, the ranks' averages are replaced by their mean before they are used or saved
  /// (train/loop/trainer.h).
  Members& average(std::string_view name, const Variable& variable) {
    return add_frozen(name, variable, Role::kAverage);
  }

  std::vector<Member>::const_iterator begin() const { return list_.begin(); }
  std::vector<Member>::const_iterator end() const { return list_.end(); }

 private:
  Members& add(Member member) {
    list_.push_back(std::move(member));
    return *this;
  }
  Members& add_frozen(std::string_view name, const Variable& variable, Role role) {
    if (variable.defined()) variable.set_trainable(false);
    return add({std::string(name), nullptr, variable, role});
  }
  /// Counts the nested member lists that this thread is currently traversing.
  struct Nested {
    explicit Nested(std::string_view path);
    ~Nested();
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
  };
  Nested nested_;
  std::vector<Member> list_;
};

class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Computes the module's result. Override the form that takes the module's number of inputs, or several
  /// forms if some inputs are optional; the last form takes any number of inputs. A form that isn't
  /// overridden throws kUnsupported. Call the module itself, `model(x)`, so that its nodes, parameters and
  /// errors carry its path.
  virtual Tensor forward(const Tensor& x);
  virtual Tensor forward(const Tensor& a, const Tensor& b);
  virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c);
  virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d);
  virtual Tensor forward(std::span<const Tensor> inputs);
  /// Names everything this module owns, always in the same order.
  virtual void members(Members&) {}
  /// The name that a Sequential gives to modules of this class: "dense".
  virtual std::string_view kind() const { return "module"; }
  /// Whether the module ends with an activation that could be a separate layer after it.
  virtual bool has_activation() const { return false; }

  /// Runs `forward` under this module's name, which its nodes then carry. An error names the path of the
  /// innermost module that it was thrown in, "[encoder/dense_1/matmul] ...". The first input must be defined;
  /// `forward` decides what an undefined later input means. If a module calls a module with variables that it
  /// doesn't list among its members, a notice (core/telemetry/log.h) says so once. Throws kInvalidArgument.
  Tensor operator()(const Tensor& x) { return (*this)(std::span(&x, 1)); }
  template <std::convertible_to<Tensor>... Others>
  Tensor operator()(const Tensor& a, const Tensor& b, const Others&... others) {
    const std::array<Tensor, 2 + sizeof...(Others)> inputs{a, b, others...};
    return (*this)(std::span<const Tensor>(inputs));
  }
  Tensor operator()(std::span<const Tensor> inputs);
  /// Builds the parameters for inputs of these specs without computing anything, and returns the result's
  /// spec. Throws the same errors as a call.
  TensorSpec build(const TensorSpec& input) { return build(std::span(&input, 1)); }
  TensorSpec build(const TensorSpec& a, const TensorSpec& b) { return build(std::array{a, b}); }
  TensorSpec build(const TensorSpec& a, const TensorSpec& b, const TensorSpec& c) {
    return build(std::array{a, b, c});
  }
  TensorSpec build(const TensorSpec& a, const TensorSpec& b, const TensorSpec& c, const TensorSpec& d) {
    return build(std::array{a, b, c, d});
  }
  TensorSpec build(std::span<const TensorSpec> inputs);

  using NamedVariables = std::vector<std::pair<std::string, Variable>>;
  /// The parameters built so far, including those of children, each listed once. Names are paths:
  /// "dense_1/kernel". These functions list the members, and so throw kInvalidArgument as Members does. They
  /// also throw kCaptureViolation if a method called children in the current capture without `enter` (see
  /// below).
  NamedVariables named_parameters();
  std::vector<Variable> parameters();
  NamedVariables named_buffers();
  std::vector<Variable> buffers();
  /// The buffers that hold averages over batches.
  std::vector<Variable> averages();
  /// The direct children.
  std::vector<std::pair<std::string, Module*>> children();
  /// The total number of elements of all parameters.
  int64_t parameter_count();

  /// Freezes or unfreezes all parameters, including those that aren't built yet.
  void set_trainable(bool trainable);
  bool trainable() const;

 protected:
  Module() = default;
  /// Calling a moved-from module, or listing its members, throws kInvalidArgument.
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  /// Exists while this module computes.
  class Scope {
   public:
    explicit Scope(Module& module);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::optional<graph::NameScope> names_;
    int exceptions_;  // in flight when it was opened
  };
  /// Any method that computes but isn't `forward`, such as one with several results, must begin with `const
  /// Scope scope = enter();`, which gives the children their paths. If a method without it calls children in
  /// a capture before they have been named, listing the parameters throws.
  Scope enter() { return Scope(*this); }
  /// Creates a parameter of this module with the values of `initializer`, immediately, even inside a capture.
  Variable make_parameter(std::string_view name, const TensorSpec& spec, const Initializer& initializer);

 private:
  friend class Members;
  void require_here() const;
  /// Gives all members below this module their paths. A variable that is still named as in the list, or by
  /// its previous path, is renamed to its new path; a variable with any other name keeps it. Members that
  /// another module has named keep their names. `before` is this module's previous path.
  void name_members(const std::string& before);
  /// Throws if a child was called in the capture with serial number `capture` without `enter` of this module.
  void require_entered(uint64_t capture);
  /// Called at the end of this module's first call inside a module that doesn't list it. Emits a notice if
  /// this module has variables.
  void tell_if_unlisted();
  NamedVariables named_variables(std::initializer_list<Members::Role> roles);

  std::string name_;  // among its parent's members; empty for a root
  std::string path_;  // with a closing '/', for the names of parameters
  bool members_named_ = false;
  bool checked_unlisted_ = false;
  bool moved_ = false;              // since it got its name
  bool moved_from_ = false;         // it was moved from, and nothing has been moved to it since
  uint64_t called_unnamed_in_ = 0;  // the last capture (its serial) that called it while it had no name
  graph::Setting trainable_{1};
};

/// Whether layers such as Dropout are in training mode. True by default, so that a hand-written step trains;
/// evaluate under `nn::TrainingScope scope(false);`. The mode belongs to the thread: a thread that serves a
/// model needs a scope of its own, also if it was started under one. If the trace of a captured function
/// reads the mode, the function keeps a plan for each mode and replays the one for the calling thread's mode.
bool training();
class TrainingScope {
 public:
  explicit TrainingScope(bool training);
  ~TrainingScope();
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;

 private:
  bool previous_;
  uint64_t previously_set_in_;
};

}  // namespace isochron::nn
