// Optimizer: what all optimizers share. It owns the slots (learning rate, steps done) and one set of states a
// parameter, and turns gradients into one call of an update op (ops/optimizer_updates.h). The same calls
// serve captured and eager code; captured, the update is in place.
//
// The kinds (optim/optimizers.h) differ only in what they give the constructor, so any of them may be moved
// into an Optimizer.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "isochron/graph/op.h"
#include "isochron/graph/variable.h"

namespace isochron::optim {

/// Decoupled weight decay: parameters lose the share learning rate x `rate` of themselves before each update
/// (Loshchilov and Hutter, ICLR 2019).
struct WeightDecay {
  double rate = 0;
  /// Which parameters decay; all where empty. Commonly those with two axes or more, sparing biases and gains.
  std::function<bool(const Variable& parameter)> applies = {};
};

class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  /// One step down d loss / d parameters: differentiates (in a capture: the graph; else: what the innermost
  /// GradientTape recorded) and applies. Parameters that aren't trainable are skipped. Throws
  /// kCaptureViolation without capture and tape, and what `apply` throws.
  void minimize(const Tensor& loss, std::span<const Variable> parameters);
  /// One step along gradients[i], the gradient of parameters[i]; parameters that aren't trainable are
  /// skipped, whatever their gradient. The first call makes the states of its parameters, filled with zeros.
  /// Throws kInvalidArgument: another number of gradients than parameters, a gradient that is missing, a
  /// repeated parameter, nothing to update, a parameter that the first call did not have; kShapeMismatch and
  /// kDtypeMismatch as the update op does. Nothing is changed then.
  void apply(std::span<const Variable> parameters, std::span<const Tensor> gradients);

  /// The learning rate of the next step; f64. Reaches captured steps without a new capture.
  double learning_rate() const;
  /// Throws kInvalidArgument unless it is finite and >= 0, kCaptureViolation in a capture (assign a tensor to
  /// the slot there).
  void set_learning_rate(double learning_rate);
  /// f64 (), for schedules computed in ops.
  const Variable& learning_rate_slot() const { return learning_rate_; }
  /// Steps done so far. i64 ().
  int64_t step_count() const;
  const Variable& step_slot() const { return step_; }

  /// Everything that a checkpoint must save: the slots and the states made so far.
  std::vector<Variable> state() const;
  /// Bytes of the states made so far, without the slots.
  size_t state_bytes() const;

 protected:
  /// `states` are the names of the update op's states, in its order.
  Optimizer(std::string_view update_op, graph::Attributes attributes, std::vector<std::string> states,
            double learning_rate, WeightDecay weight_decay = {});

 private:
  struct Entry {
    Variable parameter;
    std::vector<Variable> states;
  };
  graph::Attributes attributes_for(std::span<const Variable> parameters) const;
  void make_states(std::span<const Variable> parameters);
  const Entry& entry_of(const Variable& parameter, size_t hint) const;

  const graph::OpDef* op_;
  graph::Attributes attributes_;
  WeightDecay weight_decay_;
  std::vector<std::string> state_names_;
  Variable learning_rate_;
  Variable step_;
  std::vector<Entry> entries_;
};

}  // namespace isochron::optim
