// Tracing: while a Capture is open on a thread, op calls on that thread become nodes of its graph.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/graph/capture/settings.h"
#include "isochron/graph/ir/graph.h"

namespace isochron::graph {

/// The attribute that marks a `stop_gradient` view through which a trace reads a variable that it has already
/// assigned.
inline constexpr std::string_view kUpdatedValue = "updated";

/// One open trace. Captures nest only for sub-graphs (`cond`, `while_loop`): an inner capture lifts the
/// values that it needs from the outer capture as additional inputs.
class Capture {
 public:
  explicit Capture(Graph& graph);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture();

  /// The innermost capture of this thread, or null.
  static Capture* current();
  Graph& graph() { return graph_; }
  Capture* parent() const { return parent_; }
  /// The unique number of the outermost capture that this one belongs to; never 0.
  uint64_t serial() const { return serial_; }

  std::vector<Tensor> record(const OpDef& op, std::span<const Tensor> inputs, Attributes attributes);
  /// The value of this graph that represents `tensor`: the value itself, the newest value of a bound tensor,
  /// or an additional input. After an assignment, the newest value is a leaf: it has the assigned content,
  /// but no gradient flows through it to the inputs of that computation. Throws kStale for a handle that was
  /// taken before the assignment.
  Value* lift(const Tensor& tensor);
  /// Assigns `value` to `target`. Handles to `target` taken before this call are stale until the end of the
  /// trace.
  void assign(const Tensor& target, const Tensor& value);
  /// The outside tensor that `value` represents, before or after an assignment in this trace. Undefined if
  /// `value` is an input or any other result of a node.
  Tensor bound_behind(const Value* value) const;
  /// The values that represented `tensor` before its newest assignment in this capture; empty if there was
  /// none.
  std::vector<Value*> earlier_values(const Tensor& tensor);
  /// Writes the pending assignments into the graph as updates. Call once, at the end of the trace. Throws
  /// kCaptureViolation for a variable that was made during the trace and that nothing holds any more.
  void finish();

  /// For a sub-graph: the additional input that carries `outer`, a value of the parent's graph.
  Value* adopt(Value* outer);
  /// For a sub-graph: (outer value, the input of this graph that carries it), in order of first use.
  const std::vector<std::pair<Value*, Value*>>& captured() const { return captured_; }
  /// Inside a loop body: the i64 scalar that counts its iterations, so that random draws differ. Undefined
  /// elsewhere.
  Tensor loop_index() const;
  void set_loop_index(const Tensor& index) { loop_index_ = index; }
  /// `hook` is called when gradients in this graph are first requested; the graph then holds only the forward
  /// pass.
  void set_on_first_gradients(std::function<void()> hook) { on_first_gradients_ = std::move(hook); }
  /// Autograd calls this before it adds the first op of a backward pass.
  void note_gradients() {
    if (on_first_gradients_) std::exchange(on_first_gradients_, nullptr)();
  }
  /// The settings that the trace has read. Used only on the outermost capture.
  TracedSettings& settings() { return settings_; }
  /// A number for the next random op, unique within the outermost capture and equal between traces.
  int64_t next_random_id();

 private:
  struct State {
    Tensor tensor;  // keeps the storage alive while traced
    Value* bound;
    Value* latest;                 // the value that is written back
    std::vector<Value*> leaves{};  // values that readers got after assignments, oldest first
    bool assigned = false;
    uint64_t generation = 0;  // of the storage, before the first assignment
    bool fresh = false;       // the last of `leaves` is `latest`
  };
  Value* lift_bound(const Tensor& tensor);
  void restore_generations();
  State* state_of(const Tensor& tensor);
  State& bind(const Tensor& tensor);
  Value* newest(State& state);
  /// The entry for exactly this view (same storage, offset and spec), or null.
  State* find_state(const Tensor& tensor);
  void require_held_variables() const;

  Graph& graph_;
  Capture* parent_;
  const Registry* registry_ = nullptr;  // of the ops recorded so far
  uint64_t serial_;
  uint64_t variables_before_;                          // how many the process had made
  std::map<const Storage*, std::deque<State>> state_;  // one entry per view; addresses are stable
  std::vector<State*> assigned_;                       // in order of assignment, one per storage
  std::vector<std::pair<Value*, Value*>> captured_;
  Tensor loop_index_;
  int64_t random_ids_ = 0;
  TracedSettings settings_;
  std::function<void()> on_first_gradients_;
};

/// While it lives, ops run outside any capture: eager work (creating a variable) in the middle of a trace.
class EagerScope {
 public:
  EagerScope();
  ~EagerScope();
  EagerScope(const EagerScope&) = delete;
  EagerScope& operator=(const EagerScope&) = delete;

 private:
  Capture* saved_;
};

/// While it lives, recorded nodes belong to a part of the graph whose inner values the backward pass
/// recomputes (passes.h: recompute_checkpoints). A nested scope is part of the outer one.
class CheckpointScope {
 public:
  CheckpointScope();
  ~CheckpointScope();
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;
  static int current();

 private:
  int previous_;
};

/// Prefixes the names of nodes recorded in its lifetime: `NameScope scope("dense_1")`.
class NameScope {
 public:
  explicit NameScope(const std::string& name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  static const std::string& current();

 private:
  size_t previous_length_;
};

}  // namespace isochron::graph
