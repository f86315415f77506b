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
// A module with several inputs overrides that form of `forward` instead, and is called and built alike:
// `decoder(x, memory)`, `decoder.build(spec_of_x, spec_of_memory)`.
//
// Layers build their parameters at their first call, when they learn their input's size; also inside a
// capture, whose graph then refers to them.
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

/// What `Module::members` tells its members to, and the list of them afterwards.
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

  /// Those of `module`, whose `path` ("encoder/", empty for a root) is told in errors. Throws
  /// kInvalidArgument where a name comes twice, is empty, begins or ends with a '/', or could be the path of
  /// a child's member, and where modules lie more than 256 deep, as one does that is a member of itself.
  explicit Members(Module& module, std::string_view path = {});
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  Members& operator()(std::string_view name, Module& child) { return add({std::string(name), &child}); }
  /// A parameter; none yet where it is undefined.
  Members& operator()(std::string_view name, const Variable& parameter) {
    return add({std::string(name), nullptr, parameter});
  }
  /// State that is saved with the model but never trained, such as running means: listing it freezes it
  /// (Variable::set_trainable), so a module that reads it needn't.
  Members& buffer(std::string_view name, const Variable& variable) {
    return add_frozen(name, variable, Role::kBuffer);
  }
  /// A buffer that holds averages over the batches trained on. Ranks that train together, each on its own
  /// batches, take the mean of theirs where these are used or saved (train/loop/trainer.h).
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
  /// Counts the lists that are gone through on this thread, one in another.
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

  /// What the module computes: override the form with as many inputs as it takes, or several of them where
  /// some are optional; the last one takes any number. A form that isn't overridden throws kUnsupported. Call
  /// the module itself, `model(x)`: then its nodes, parameters and errors carry its path.
  virtual Tensor forward(const Tensor& x);
  virtual Tensor forward(const Tensor& a, const Tensor& b);
  virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c);
  virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d);
  virtual Tensor forward(std::span<const Tensor> inputs);
  /// Names everything this module owns, always in the same order.
  virtual void members(Members&) {}
  /// What a Sequential calls it: "dense".
  virtual std::string_view kind() const { return "module"; }
  /// Whether its result has gone through an activation that could be a layer of its own after it.
  virtual bool has_activation() const { return false; }

  /// `forward` under this module's name, which its nodes then carry; an error tells the path of the innermost
  /// module that it comes from, "[encoder/dense_1/matmul] ...". The first input must be defined; an undefined
  /// one behind it means what `forward` makes of it. Throws kInvalidArgument.
  Tensor operator()(const Tensor& x) { return (*this)(std::span(&x, 1)); }
  template <std::convertible_to<Tensor>... Others>
  Tensor operator()(const Tensor& a, const Tensor& b, const Others&... others) {
    const std::array<Tensor, 2 + sizeof...(Others)> inputs{a, b, others...};
    return (*this)(std::span<const Tensor>(inputs));
  }
  Tensor operator()(std::span<const Tensor> inputs);
  /// Builds the parameters for inputs of these specs without computing; returns the result's spec. Throws as
  /// the call.
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
  /// Parameters built so far, those of children included, each once; names are paths: "dense_1/kernel". These
  /// list the members, and so throw kInvalidArgument as Members does, and kCaptureViolation where a method
  /// called children in the capture that is open without `enter` (see there).
  NamedVariables named_parameters();
  std::vector<Variable> parameters();
  NamedVariables named_buffers();
  std::vector<Variable> buffers();
  /// Those of the buffers that are averages over batches.
  std::vector<Variable> averages();
  /// The direct children.
  std::vector<std::pair<std::string, Module*>> children();
  /// Elements of all parameters.
  int64_t parameter_count();

  /// Freezes or thaws all parameters, also those still to be built.
  void set_trainable(bool trainable);
  bool trainable() const { return trainable_; }

 protected:
  Module() = default;
  /// One that was moved from throws kInvalidArgument where it is called or its members are listed.
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  /// Open while this module computes.
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
  /// Methods that compute and aren't `forward`, such as those with several results, begin with
  /// `const Scope scope = enter();`: children get their paths from it. Where one forgot to, and calls
  /// children in a capture before anything has named them, listing the parameters throws.
  Scope enter() { return Scope(*this); }
  /// A parameter of this module, filled by `initializer`; made at once, also inside a capture.
  Variable make_parameter(std::string_view name, const TensorSpec& spec, const Initializer& initializer);

 private:
  friend class Members;
  void require_here() const;
  /// Gives all members below this module their paths and names their variables after them. Those that another
  /// module named keep theirs; `before` is the path that this one had until now.
  void name_members(const std::string& before);
  /// Throws where a child was called in this capture (its serial) without `enter` of this module.
  void require_entered(uint64_t capture);
  NamedVariables named_variables(std::initializer_list<Members::Role> roles);

  std::string name_;  // among its parent's members; empty for a root
  std::string path_;  // with a closing '/', for the names of parameters
  bool members_named_ = false;
  bool moved_ = false;              // since it got its name
  bool left_ = false;               // it was moved from, and nothing has been moved to it since
  bool built_unnamed_ = false;      // it made parameters while it had no name
  uint64_t called_unnamed_in_ = 0;  // the last capture (its serial) that called it while it had no name
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
