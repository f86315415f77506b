#include "isochron/graph/capture.h"

#include <algorithm>

namespace isochron::graph {
namespace {

thread_local Capture* t_current = nullptr;
thread_local std::string t_scope;

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
  const auto key =
      std::make_pair(static_cast<const Storage*>(tensor.storage().get()), tensor.impl()->offset_bytes);
  if (const auto found = state_.find(key);
      found != state_.end() && found->second.bound->spec == tensor.spec()) {
    return found->second.latest;
  }
  if (parent_ && !tensor.storage()->constant()) return adopt(parent_->lift(tensor));
  const bool assigned = std::find(assigned_.begin(), assigned_.end(), key.first) != assigned_.end();
  require(!assigned, ErrorCode::kCaptureViolation, "capture",
          "{} is another view of a variable that was assigned in this capture; use the variable itself",
          tensor.spec().str());
  Value* value = graph_.add_bound(tensor);
  state_.try_emplace(key, State{tensor, value, value});
  return value;
}

void Capture::assign(const Tensor& target, const Tensor& value) {
  require(
      parent_ == nullptr, ErrorCode::kUnsupported, "assign",
      "a variable can't be assigned inside cond or while_loop; return the new value and assign it outside");
  require(!target.is_value(), ErrorCode::kCaptureViolation, "assign",
          "the target is a value of the graph; only a variable from outside can be assigned");
  require(!target.storage()->constant(), ErrorCode::kInvalidArgument, "assign", "the target is a constant");
  Value* source = lift(value);
  lift_bound(target);
  State& state = state_.at({target.storage().get(), target.impl()->offset_bytes});
  state.latest = source;
  if (std::find(assigned_.begin(), assigned_.end(), target.storage().get()) == assigned_.end()) {
    assigned_.push_back(target.storage().get());
  }
}

void Capture::finish() {
  for (const Storage* storage : assigned_) {
    for (auto& [key, state] : state_) {
      if (key.first == storage && state.latest != state.bound)
        graph_.updates().push_back({state.bound, state.latest});
    }
  }
}

Tensor Capture::loop_index() const {
  if (loop_index_.defined()) return loop_index_;
  return parent_ ? parent_->loop_index() : Tensor();
}

int64_t Capture::next_random_id() { return parent_ ? parent_->next_random_id() : random_ids_++; }

EagerScope::EagerScope() : saved_(t_current) { t_current = nullptr; }
EagerScope::~EagerScope() { t_current = saved_; }

NameScope::NameScope(const std::string& name) : previous_length_(t_scope.size()) { t_scope += name + "/"; }
NameScope::~NameScope() { t_scope.resize(previous_length_); }
const std::string& NameScope::current() { return t_scope; }

}  // namespace isochron::graph
