#include "isochron/graph/capture.h"

#include <algorithm>

namespace isochron::graph {
namespace {

thread_local Capture* t_current = nullptr;
thread_local std::string t_scope;
thread_local int t_checkpoint = 0;
thread_local int t_checkpoints = 0;  // numbers given so far

}  // namespace

Capture::Capture(Graph& graph) : graph_(graph), parent_(t_current) { t_current = this; }
Capture::~Capture() { t_current = parent_; }
Capture* Capture::current() { return t_current; }

std::vector<Tensor> Capture::record(const OpDef& op, std::span<const Tensor> inputs, Attributes attributes) {
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
  require(!tensor.stale(), ErrorCode::kStale, "capture",
          "{} was replaced by {} since it was taken; take it again", tensor.spec().str(),
          tensor.storage()->owner());
  const Storage* storage = tensor.storage().get();
  State* known = find_state(tensor);
  const auto assigned = std::find_if(assigned_.begin(), assigned_.end(), [storage](const State* state) {
    return state->tensor.storage().get() == storage;
  });
  require(assigned == assigned_.end() || *assigned == known, ErrorCode::kCaptureViolation, "capture",
          "{} is another view of a variable that was assigned in this capture; use the variable itself",
          tensor.spec().str());
  if (known) return known->latest;
  if (parent_ && !tensor.storage()->constant()) return adopt(parent_->lift(tensor));
  Value* value = graph_.add_bound(tensor);
  state_[storage].push_back({tensor, value, value});
  return value;
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
  require(
      parent_ == nullptr, ErrorCode::kUnsupported, "assign",
      "a variable can't be assigned inside cond or while_loop; return the new value and assign it outside");
  require(!target.storage()->constant(), ErrorCode::kInvalidArgument, "assign", "the target is a constant");
  Value* source = lift(value);
  const Tensor variable =
      target.refreshed();  // its content is replaced: how old the handle is doesn't matter
  lift_bound(variable);
  State* state = find_state(variable);
  state->latest = source;
  if (std::find(assigned_.begin(), assigned_.end(), state) == assigned_.end()) assigned_.push_back(state);
}

void Capture::finish() {
  for (const State* state : assigned_) {
    if (state->latest != state->bound) graph_.updates().push_back({state->bound, state->latest});
  }
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
