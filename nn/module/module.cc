#include "isochron/nn/module/module.h"

#include <algorithm>
#include <exception>
#include <new>
#include <set>

#include "isochron/core/telemetry/event.h"
#include "isochron/core/text/count_text.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/nn/module/call_log.h"
#include "isochron/ops/shape/held_numbers.h"

namespace isochron::nn {
namespace {

constexpr int kDeepest = 256;  // maximum nesting of modules
thread_local int t_nested_lists = 0;

thread_local bool t_training = true;
thread_local uint64_t t_training_set_in = 0;  // the serial number of a capture
thread_local std::vector<Module*> t_entered;  // whose scopes are open, the innermost last

/// The innermost module that an error left, since a scope was last opened.
struct FailedIn {
  std::string scope;
  std::string kind;
};
thread_local std::optional<FailedIn> t_failed;

/// An error whose place has the path of its module.
class LocatedError final : public Error {
 public:
  using Error::Error;
};

/// Errors of a module's own function name its kind, as "dense" and "batch_norm/group_norm" do. The kind isn't
/// repeated behind the module's name.
LocatedError located(const Error& error, const FailedIn& module) {
  const std::string& where = error.where();
  const bool within_own = where.starts_with(module.kind + "/");
  std::string place = module.scope + (within_own ? where.substr(module.kind.size() + 1) : where);
  if (module.scope.empty() && where != module.kind && module.kind != "module") {
    place = within_own ? where : fmt::format("{}/{}", module.kind, where);
  } else if (!module.scope.empty() && where == module.kind) {
    const std::string path = module.scope.substr(0, module.scope.size() - 1);
    const size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
    if (path.compare(name, where.size(), where) == 0) place = path;  // "dense_1"
  }
  return {error.code(), place, std::string(error.text())};
}

using Roles = std::initializer_list<Members::Role>;

/// Adds the variables of all levels, each once.
void collect(Module& module, Roles roles, const std::string& path, Module::NamedVariables& found) {
  for (const Members::Member& member : Members(module, path)) {
    std::string name = path + member.name;
    if (member.child) {
      collect(*member.child, roles, name + "/", found);
    } else if (member.variable.defined() && std::ranges::find(roles, member.role) != roles.end()) {
      const bool known = std::any_of(found.begin(), found.end(),
                                     [&](const auto& entry) { return entry.second == member.variable; });
      if (!known) found.emplace_back(std::move(name), member.variable);
    }
  }
}

/// Reports that `forward` has no form with `count` inputs.
[[noreturn]] void fail_without_forward(const Module& module, size_t count) {
  static constexpr std::string_view kInputs[] = {"const Tensor& x", "const Tensor& a, const Tensor& b",
                                                 "const Tensor& a, const Tensor& b, const Tensor& c",
                                                 "const Tensor& a, const Tensor& b, const Tensor& c, "
                                                 "const Tensor& d"};
  fail(ErrorCode::kUnsupported, module.kind(),
       "was called with {}, but has no forward for so many; write `Tensor forward({}) override`",
       count_text(count, "input"),
       count <= std::size(kInputs) ? kInputs[count - 1] : "std::span<const Tensor> inputs");
}

std::vector<Variable> without_names(const Module::NamedVariables& named) {
  std::vector<Variable> result;
  result.reserve(named.size());
  for (const auto& [name, variable] : named) result.push_back(variable);
  return result;
}

}  // namespace

Members::Nested::Nested(std::string_view path) {
  require(t_nested_lists < kDeepest, ErrorCode::kInvalidArgument, shortened(path, 60),
          "lies more than {} modules deep; does a module list itself, or one that it is a member of?",
          kDeepest);
  ++t_nested_lists;
}
Members::Nested::~Nested() { --t_nested_lists; }

Members::Members(Module& module, std::string_view path) : nested_(path) {
  module.require_here();
  module.members(*this);
  const std::string_view where = path.empty() ? module.kind() : path.substr(0, path.size() - 1);
  std::set<std::string_view> names;
  for (const Member& member : list_) {
    const std::string& name = member.name;
    require(!name.empty() && name.front() != '/' && name.back() != '/', ErrorCode::kInvalidArgument, where,
            "members() lists '{}'; a name must not be empty, and a '/' must stand between two parts of it",
            name);
    require(names.insert(name).second, ErrorCode::kInvalidArgument, where,
            "members() lists '{}' twice; give each member a name of its own", name);
  }
  for (const Member& member : list_) {
    if (!member.child) continue;
    const std::string below = member.name + '/';
    const auto other = names.lower_bound(below);
    require(
        other == names.end() || !other->starts_with(below), ErrorCode::kInvalidArgument, where,
        "members() lists '{}' beside the module '{}', whose members have such paths; give it another name",
        other == names.end() ? "" : *other, member.name);
  }
}

Module::Module(Module&& other) noexcept { *this = std::move(other); }

Module& Module::operator=(Module&& other) noexcept {
  name_ = std::move(other.name_);
  path_ = std::move(other.path_);
  members_named_ = other.members_named_;
  moved_ = true;
  moved_from_ = std::exchange(other.moved_from_, true);
  checked_unlisted_ = other.checked_unlisted_;
  called_unnamed_in_ = other.called_unnamed_in_;
  trainable_ = other.trainable_;
  return *this;
}

void Module::name_members(const std::string& before) {
  for (const Members::Member& member : Members(*this, path_)) {
    if (member.variable.defined()) {  // its name here, or its previous path
      const std::string& name = member.variable.name();
      if (name == member.name || name == before + member.name) member.variable.rename(path_ + member.name);
    }
    if (!member.child) continue;
    Module& child = *member.child;
    std::string path = fmt::format("{}{}/", path_, member.name);
    const bool ours =
        child.path_.empty() || child.moved_ || child.path_ == fmt::format("{}{}/", before, member.name);
    if (!ours) continue;
    if (child.path_ == path && !child.moved_) {
      child.name_members(path);  // members may have been added since
      continue;
    }
    child.name_ = member.name;
    child.moved_ = false;
    const std::string child_before = std::exchange(child.path_, std::move(path));
    child.name_members(child_before);
  }
  if (!members_named_) members_named_ = true;
}

void Module::require_entered(uint64_t capture) {
  for (const Members::Member& member : Members(*this, path_)) {
    if (!member.child || !member.child->path_.empty()) continue;
    require(member.child->called_unnamed_in_ != capture, ErrorCode::kCaptureViolation, kind(),
            "'{}' was called in this capture before the module that owns it was entered, so its nodes and "
            "parameters have no path; call the module itself, model(x), and not forward, and begin its other "
            "methods with `const Scope scope = enter();`; a list of modules needs such a module around it",
            member.name);
    member.child->require_entered(capture);
  }
}

Module::Scope::Scope(Module& module) : exceptions_(std::uncaught_exceptions()) {
  t_failed.reset();
  Module* around = t_entered.empty() ? nullptr : t_entered.back();
  if (!module.members_named_) module.name_members(module.path_);
  if (module.path_.empty() && around != nullptr && around != &module) {
    around->name_members(around->path_);  // may have a new member
  }
  const std::string_view path = module.path_;
  if (path.empty()) {
    const graph::Capture* capture = graph::Capture::current();
    if (capture && !around) module.called_unnamed_in_ = capture->serial();
  } else {
    std::string_view below = path;
    if (around) below = path.starts_with(around->path_) ? path.substr(around->path_.size()) : module.name_;
    if (below.ends_with('/')) below.remove_suffix(1);
    if (!below.empty()) names_.emplace(std::string(below));
  }
  t_entered.push_back(&module);
}

Module::Scope::~Scope() {
  if (std::uncaught_exceptions() > exceptions_ && !t_failed)
    t_failed = {graph::NameScope::current(), std::string(t_entered.back()->kind())};
  t_entered.pop_back();
}

void Module::tell_if_unlisted() {
  checked_unlisted_ = true;
  if (std::ranges::count(t_entered, this) > 1) return;  // a module that calls itself
  NamedVariables own;
  collect(*this, {Members::Role::kParameter, Members::Role::kBuffer, Members::Role::kAverage}, "", own);
  if (own.empty()) return;
  const Module& caller = *t_entered[t_entered.size() - 2];
  const std::string name =
      caller.path_.empty() ? std::string(caller.kind()) : caller.path_.substr(0, caller.path_.size() - 1);
  emit(
      {EventKind::kNotice, name,
       fmt::format("'{}' calls a '{}' that its members() doesn't list, so {} ('{}'{}) {} neither trained nor "
                   "saved with it; list the module, or call it outside of '{}' if that is intended",
                   name, kind(), count_text(own.size(), "variable"), own.front().first,
                   own.size() > 1 ? ", ..." : "", own.size() > 1 ? "are" : "is", name)});
}

Tensor Module::forward(const Tensor&) { fail_without_forward(*this, 1); }
Tensor Module::forward(const Tensor&, const Tensor&) { fail_without_forward(*this, 2); }
Tensor Module::forward(const Tensor&, const Tensor&, const Tensor&) { fail_without_forward(*this, 3); }
Tensor Module::forward(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  fail_without_forward(*this, 4);
}
Tensor Module::forward(std::span<const Tensor> inputs) {
  switch (inputs.size()) {
    case 1:
      return forward(inputs[0]);
    case 2:
      return forward(inputs[0], inputs[1]);
    case 3:
      return forward(inputs[0], inputs[1], inputs[2]);
    case 4:
      return forward(inputs[0], inputs[1], inputs[2], inputs[3]);
    default:
      fail_without_forward(*this, inputs.size());
  }
}

void Module::require_here() const {
  require(!moved_from_, ErrorCode::kInvalidArgument, kind(),
          "it was moved from; use the one that it was moved to");
}

Tensor Module::operator()(std::span<const Tensor> inputs) {
  require_here();
  try {
    const Scope scope = enter();
    require(!inputs.empty() && inputs[0].defined(), ErrorCode::kInvalidArgument, kind(), "{}",
            inputs.empty() ? "there is no input" : "the input is undefined");
    Tensor result = forward(inputs);
    if (path_.empty() && !checked_unlisted_ && t_entered.size() > 1) tell_if_unlisted();
    if (CallLog* log = CallLog::current()) log->add(*this, result);
    return result;
  } catch (const LocatedError&) {
    t_failed.reset();
    throw;
  } catch (const Error& error) {
    if (!t_failed) throw;  // thrown before the module was entered
    throw located(error, *std::exchange(t_failed, std::nullopt));
  }
}

TensorSpec Module::build(std::span<const TensorSpec> inputs) {
  const graph::EagerScope eager;
  graph::Graph graph;
  graph::Capture capture(graph);
  std::vector<Tensor> values;
  values.reserve(inputs.size());
  for (const TensorSpec& input : inputs) values.push_back(graph::Graph::tensor_of(graph.add_input(input)));
  return (*this)(values).spec();
}

Module::NamedVariables Module::named_variables(std::initializer_list<Members::Role> roles) {
  const graph::Capture* capture = graph::Capture::current();
  if (capture && !members_named_) require_entered(capture->serial());
  name_members(path_);
  NamedVariables found;
  collect(*this, roles, "", found);
  return found;
}
Module::NamedVariables Module::named_parameters() { return named_variables({Members::Role::kParameter}); }
Module::NamedVariables Module::named_buffers() {
  return named_variables({Members::Role::kBuffer, Members::Role::kAverage});
}
std::vector<Variable> Module::parameters() { return without_names(named_parameters()); }
std::vector<Variable> Module::buffers() { return without_names(named_buffers()); }
std::vector<Variable> Module::averages() { return without_names(named_variables({Members::Role::kAverage})); }

std::vector<std::pair<std::string, Module*>> Module::children() {
  std::vector<std::pair<std::string, Module*>> result;
  for (const Members::Member& member : Members(*this, path_))
    if (member.child) result.emplace_back(member.name, member.child);
  return result;
}

int64_t Module::parameter_count() {
  int64_t count = 0;
  for (const Variable& parameter : parameters()) count += parameter.elems();
  return count;
}

bool Module::trainable() const {
  return trainable_.read([this] {
    return fmt::format("whether module '{}' is trainable", path_.substr(0, path_.find_last_of('/')));
  }) != 0;
}

void Module::set_trainable(bool trainable) {
  trainable_.set(trainable);
  for (const Variable& parameter : parameters()) parameter.set_trainable(trainable);
  for (const auto& [name, child] : children()) child->set_trainable(trainable);
}

Variable Module::make_parameter(std::string_view name, const TensorSpec& spec,
                                const Initializer& initializer) {
  Rng rng = next_initializer_rng();
  const std::string whole_name = fmt::format("{}{}", path_, name);
  try {
    const Initializer::Draw draw = initializer.begin(spec.shape, rng);
    return Variable(
        spec,
        [&](std::span<double> next) {
          draw(next);
          for (const double value : next) ops::require_held(value, spec.dtype, "initializer");
        },
        whole_name, trainable_.value() != 0);
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kOutOfMemory, whole_name, "no memory for the initial values of {}", spec.str());
  }
}

bool training() {
  graph::note_setting(
      &t_training, t_training_set_in, [] { return "the training mode"; }, [] { return t_training ? 1 : 0; });
  return t_training;
}

TrainingScope::TrainingScope(bool training)
    : previous_(std::exchange(t_training, training)),
      previously_set_in_(std::exchange(t_training_set_in, graph::capture_serial())) {
  if (training != previous_) graph::TracedSettings::note_change();
}
TrainingScope::~TrainingScope() {
  t_training_set_in = previously_set_in_;
  if (std::exchange(t_training, previous_) != previous_) graph::TracedSettings::note_change();
}

}  // namespace isochron::nn
