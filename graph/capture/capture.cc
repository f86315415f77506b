#include "isochron/graph/capture/capture.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "isochron/graph/capture/variable.h"
#include "isochron/graph/ir/rewriter.h"

namespace isochron::graph {
namespace {

/// Added to the generation of a storage that a trace assigns, so that handles taken during the trace are
/// stale after it.
constexpr uint64_t kTraced = uint64_t{1} << 63;

thread_local Capture* t_current = nullptr;
thread_local std::string t_scope;
thread_local int t_checkpoint = 0;
thread_local int t_checkpoints = 0;  // scopes numbered so far

}  // namespace

Capture::Capture(Graph& graph) : graph_(graph), parent_(t_current), variables_before_(variables_made()) {
  static std::atomic<uint64_t> captures{0};
  serial_ = parent_ ? parent_->serial_ : ++captures;
  t_current = this;
}
Capture::~Capture() {
  restore_generations();
  t_current = parent_;
}
Capture* Capture::current() { return t_current; }

std::vector<Tensor> Capture::record(const OpDef& op, std::span<const Tensor> inputs, Attributes attributes) {
  for (Capture* capture = this; capture != nullptr; capture = capture->parent_)
    capture->registry_ = op.registry;
  std::vector<Value*> values;
  values.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    require(input.defined(), ErrorCode::kInvalidArgument, op.name, "input {} is undefined", values.size());
    values.push_back(lift(input));
  }
  Node* node = graph_.add_node(op, values, std::move(attributes), NameScope::current());
  node->checkpoint = CheckpointScope::current();
  std::vector<Tensor> outputs;
  outputs.reserve(node->outputs.size());
  for (Value* value : node->outputs) outputs.push_back(Graph::tensor_of(value));
  return outputs;
}

Value* Capture::lift(const Tensor& tensor) {
  if (!tensor.is_value()) return lift_bound(tensor);
  auto* value = static_cast<Value*>(tensor.value().get());
  if (value->graph == &graph_) return value;
  require(value->graph != nullptr && parent_ != nullptr, ErrorCode::kCaptureViolation, "capture",
          "{} belongs to a capture that has ended; return it from the captured function and pass the result",
          tensor.spec().str());
  return adopt(parent_->lift(tensor));
}

Value* Capture::adopt(Value* outer) {
  for (const auto& [known, inner] : captured_) {
    if (known == outer) return inner;
  }
  captured_.emplace_back(outer, graph_.add_input(outer->spec));
  return captured_.back().second;
}

Value* Capture::lift_bound(const Tensor& tensor) {
  State* known = state_of(tensor);
  if (known) return newest(*known);
  if (parent_ && !tensor.storage()->constant()) return adopt(parent_->lift(tensor));
  return bind(tensor).bound;
}

/// The entry for `tensor`, or null. Throws kStale if an assignment has made the handle stale, and
/// kCaptureViolation if another view of the same storage was assigned.
Capture::State* Capture::state_of(const Tensor& tensor) {
  require(!tensor.stale(), ErrorCode::kStale, "capture",
          "{} was replaced by {} since it was taken; take it again, or keep its content by stop_gradient() "
          "before it is replaced",
          tensor.spec().str(), tensor.storage()->owner());
  const Storage* storage = tensor.storage().get();
  State* known = find_state(tensor);
  const auto assigned = std::find_if(assigned_.begin(), assigned_.end(), [storage](const State* state) {
    return state->tensor.storage().get() == storage;
  });
  require(assigned == assigned_.end() || *assigned == known, ErrorCode::kCaptureViolation, "capture",
          "{} is another view of a variable that was assigned in this capture; use the variable itself",
          tensor.spec().str());
  return known;
}

Capture::State& Capture::bind(const Tensor& tensor) {
  Value* value = graph_.add_bound(tensor);
  std::deque<State>& views = state_[tensor.storage().get()];
  views.push_back({.tensor = tensor, .bound = value, .latest = value});
  return views.back();
}

/// Readers of an assigned variable get a separate value (a stop_gradient view), so that the backward walk can
/// distinguish it from the assigned value.
Value* Capture::newest(State& state) {
  if (!state.assigned || !is_floating(state.bound->spec.dtype)) return state.latest;
  if (state.fresh) return state.leaves.back();
  const OpDef* stop = registry_ != nullptr ? registry_->find("stop_gradient") : nullptr;
  if (stop == nullptr) return state.latest;  // without ops there is nothing to differentiate
  Attributes attributes;
  attributes.set(kUpdatedValue, true);
  Value* const inputs[] = {state.latest};
  state.leaves.push_back(
      graph_.add_node(*stop, inputs, std::move(attributes), NameScope::current())->outputs[0]);
  state.fresh = true;
  return state.leaves.back();
}

Tensor Capture::bound_behind(const Value* value) const {
  for (const auto& [outer, inner] : captured_) {
    if (inner == value) return parent_->bound_behind(outer);
  }
  if (value->kind == Value::Kind::kBound) return value->bound.refreshed();
  for (const auto& [storage, views] : state_) {
    for (const State& state : views) {
      if (std::ranges::find(state.leaves, value) != state.leaves.end()) return state.tensor.refreshed();
    }
  }
  return Tensor();
}

std::vector<Value*> Capture::earlier_values(const Tensor& tensor) {
  const State* state = find_state(tensor);
  if (state == nullptr || !state->assigned) return {};
  std::vector<Value*> values{state->bound};
  values.insert(values.end(), state->leaves.begin(), state->leaves.end() - (state->fresh ? 1 : 0));
  return values;
}

Capture::State* Capture::find_state(const Tensor& tensor) {
  const auto views = state_.find(tensor.storage().get());
  if (views == state_.end()) return nullptr;
  for (State& state : views->second) {
    if (state.tensor.impl()->offset_bytes == tensor.impl()->offset_bytes &&
        state.bound->spec == tensor.spec()) {
      return &state;
    }
  }
  return nullptr;
}

void Capture::assign(const Tensor& target, const Tensor& value) {
  require(parent_ == nullptr, ErrorCode::kUnsupported, "assign",
          "a variable can't be assigned inside cond, while_loop or scan; return the new value and assign it "
          "outside; a layer that keeps averages, such as BatchNorm, must be called outside, or frozen");
  require(!target.storage()->constant(), ErrorCode::kInvalidArgument, "assign", "the target is a constant");
  Value* source = lift(value);
  const Tensor variable =
      target.refreshed();  // its content is replaced: how old the handle is doesn't matter
  State* state = state_of(variable);
  if (state == nullptr) state = &bind(variable);
  state->latest = source;
  state->fresh = false;
  Storage& storage = *variable.storage();
  if (!std::exchange(state->assigned, true)) {
    assigned_.push_back(state);
    state->generation = storage.generation();
    storage.set_generation(kTraced + storage.generation());
  }
  storage.next_generation();
}

/// Restores the generations from before the assignments, so that handles from before the trace are valid
/// again.
void Capture::restore_generations() {
  for (State* state : assigned_) state->tensor.storage()->set_generation(state->generation);
}

/// Rejects variables that exist only during the trace, because each trace would begin with a new one.
void Capture::require_held_variables() const {
  for (const auto& [storage, views] : state_) {
    const std::optional<VariableInfo> info = variable_behind(views.front().tensor);
    require(!info || info->held || info->number <= variables_before_, ErrorCode::kCaptureViolation, "capture",
            "variable '{}' was made inside the captured function and ends with it, so each trace would begin "
            "with a new one; make it, or the layer that has it, outside of the function",
            info ? info->name : "");
  }
}

void Capture::finish() {
  require_held_variables();
  // No more gradients are requested: readers of an assigned variable now read the assigned value directly.
  Rewriter rewriter(graph_);
  std::vector<bool> keep;
  for (const auto& node : graph_.nodes()) {
    rewriter.update_inputs(*node);
    keep.push_back(!node->attributes.has(kUpdatedValue));
    if (!keep.back()) rewriter.replace(node->outputs[0], node->inputs[0]);
  }
  for (const State* state : assigned_) {
    Value* const value = rewriter.resolve(state->latest);
    if (value != state->bound) graph_.updates().push_back({state->bound, value});
  }
  if (std::ranges::find(keep, false) == keep.end()) return;
  rewriter.finish();
  graph_.retain_nodes(keep);
}

Tensor Capture::loop_index() const {
  if (loop_index_.defined()) return loop_index_;
  return parent_ ? parent_->loop_index() : Tensor();
}

int64_t Capture::next_random_id() { return parent_ ? parent_->next_random_id() : random_ids_++; }

EagerScope::EagerScope() : saved_(t_current) { t_current = nullptr; }
EagerScope::~EagerScope() { t_current = saved_; }

CheckpointScope::CheckpointScope() : previous_(t_checkpoint) {
  if (t_checkpoint == 0) t_checkpoint = ++t_checkpoints;
}
CheckpointScope::~CheckpointScope() { t_checkpoint = previous_; }
int CheckpointScope::current() { return t_checkpoint; }

NameScope::NameScope(const std::string& name) : previous_length_(t_scope.size()) { t_scope += name + "/"; }
NameScope::~NameScope() { t_scope.resize(previous_length_); }
const std::string& NameScope::current() { return t_scope; }

}  // namespace isochron::graph
