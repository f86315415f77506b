// Optimizer: the common base of all optimizers. It owns the slots (learning rate, step count, and the slots
// that accumulation and loss scaling need) and one set of states per parameter, and turns gradients into one
// call of an update op (ops/optimizer/optimizer_updates.h). Captured and eager code make the same calls; in
// captured code the update is in place. Schedules depend on the number of all updates. The bias correction of
// Adam and others counts each parameter's own updates, so updates that a parameter misses because it is
// frozen or has no gradient don't affect it (optim/participation.h).
//
// If a step reads only a few rows of a table (nn::Embedding, nn::EmbeddingBag, gather along the first axis),
// the table's gradient is row-sparse (ops/indexing/row_updates.h). Only the rows that were read are updated,
// in place, in two cases:
//
//   - The layer has the option `sparse`. The states of other rows then don't change, whatever they hold, as
//     in PyTorch's SparseAdam. SGD without momentum and Adagrad give their usual results. All other
//     optimizers are lazy: a moment decays, and changes the parameter, only in steps that read the row. The
//     bias correction counts all updates of the table. PyTorch's SparseAdam corresponds to Adam with epsilon
//     1e-8, its sparse SGD and Adagrad to the optimizers here in their PyTorch form (optim/optimizers.h).
//   - The result is the same as that of the dense update, bit for bit. This holds for SGD without momentum
//     and Adagrad, without weight decay of the table, without clipping by norm or scaling by hand, if the
//     table is read once, at no more than half as many places as it has rows.
//
// The cost of a captured step then doesn't depend on the size of the table; eager updates copy the table.
// Clipping, loss scaling and parameter groups work as usual, because the rows have the same norm as the dense
// gradient. In a capture, a gradient stays row-sparse if it is clipped by a norm, divided by a loss scale or
// negated between `gradients` and `apply`.
//
// The dense gradient is needed for tables that are also read in another way (tied weights), gradient
// accumulation, several ranks, noise, weight decay of the table, LAMB and Adafactor, and any other change of
// the gradient by hand (clip, where). SGD without momentum and Adagrad then update all rows, with correct
// results, and so does every other optimizer if the layer isn't `sparse`. If the layer is `sparse`, the
// update could not be lazy, so the optimizer throws kUnsupported. Tied weights are an exception, because
// every row has a gradient.
//
// Averages (ema_decay) and kept gradients cost a pass over the table. Checkpoints hold whole tables and
// states, so resuming needs nothing else.
//
// The optimizers (optim/optimizers.h) differ only in their arguments to this constructor, so any of them may
// be moved into an Optimizer.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/graph/capture/variable.h"
#include "isochron/graph/ir/op.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/optim/participation.h"
#include "isochron/optim/schedules.h"
#include "isochron/optim/step_options.h"

namespace isochron::optim {

class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// Using an optimizer after a move from it throws kInvalidArgument.
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  /// Takes one step down d loss / d parameters: differentiates (in a capture, the graph; otherwise, what the
  /// innermost GradientTape has recorded) and applies the gradients. The loss is a mean over `rows` samples,
  /// which matters if micro-batches of different sizes are accumulated. Parameters that aren't trainable are
  /// skipped. Throws kCaptureViolation without capture and tape; kInvalidArgument if the loss has a gradient
  /// for trainable variables that aren't among `parameters` (but see StepOptions::allow_untrained), naming
  /// them; kStale if the loss was computed before a parameter's newest update; kShapeMismatch if the loss
  /// isn't a single number; and what `apply` throws.
  void minimize(const Tensor& loss, std::span<const Variable> parameters, double rows = 1);
  /// rows: f64 (), such as the number of tokens that aren't padding.
  void minimize(const Tensor& loss, std::span<const Variable> parameters, const Tensor& rows);
  /// Takes one step along gradients[i], the gradient of parameters[i]. Parameters that aren't trainable are
  /// skipped, whatever their gradient. Under loss scaling, pass the gradients of `scaled(loss)`. The first
  /// call creates the states of its parameters. Throws kInvalidArgument for different numbers of gradients
  /// and parameters, a missing gradient (but see StepOptions::allow_unused), a repeated parameter, nothing to
  /// update, a parameter that neither the first call nor `prepare` had, and, at the first call, a parameter
  /// group or a filter of the weight decay that holds for none of `parameters`; kShapeMismatch and
  /// kDtypeMismatch like the update op. A call that throws changes nothing.
  void apply(std::span<const Variable> parameters, std::span<const Tensor> gradients, double rows = 1);
  void apply(std::span<const Variable> parameters, std::span<const Tensor> gradients, const Tensor& rows);
  /// Creates the states of those trainable `parameters` that have none: before the first step, so that they
  /// can be restored, or later, to train further parameters (PyTorch's add_param_group). Then captured steps
  /// are traced anew, and `state` must be listed anew; so add parameters before a Trainer's `fit`, which
  /// lists what it saves at its beginning. Throws kInvalidArgument like `apply`, and while AveragedWeights
  /// live; kUnsupported for parameters on a device with several ranks.
  void prepare(std::span<const Variable> parameters);

  /// The learning rate of the next step; f64. A change takes effect in captured steps without a new capture.
  double learning_rate() const;
  /// Throws kInvalidArgument unless it is finite and >= 0, or if a schedule computes it; kCaptureViolation in
  /// a capture (assign a tensor to the slot instead).
  void set_learning_rate(double learning_rate);
  /// From now on, the learning rate of parameter group number `group` in StepOptions is `factor` times the
  /// optimizer's. Captured steps are traced anew. The factor isn't part of the state: a program that resumes
  /// sets it again. Throws kOutOfRange for a group that doesn't exist, kInvalidArgument unless the factor is
  /// finite and at least 0, kCaptureViolation in a capture.
  void set_learning_rate_factor(size_t group, double factor);
  /// Starting with the next update, the learning rate follows `schedule`, as a function of the number of
  /// updates done. (A state that is restored later includes the rate of its next update; the schedule applies
  /// after that update.) Captured steps are traced anew. Throws kCaptureViolation in a capture.
  void set_schedule(Schedule schedule);
  /// f64 ().
  const Variable& learning_rate_slot() const { return learning_rate_; }
  /// Updates done so far. i64 ().
  int64_t step_count() const;
  const Variable& step_slot() const { return step_; }

  /// The number of micro-batches per update.
  int64_t accumulate() const { return options_.accumulate; }
  /// How many micro-batches have already been accumulated for the next update. The next micro-batch is number
  /// `phase()` of its group, counting from 0.
  int64_t phase() const;
  /// Makes the next micro-batch the last of its group, however few the group has. Used at the end of an
  /// epoch. Takes effect in captured steps without a new capture. Throws kCaptureViolation in a capture.
  void flush_next();
  /// Discards the micro-batches of an unfinished update and a pending `flush_next`, so that the next update
  /// starts from nothing. Throws kCaptureViolation in a capture.
  void drop_micro_batches();
  /// Takes part in an update for which this rank has no micro-batch left but other ranks do: like `apply`
  /// with zero gradients of zero rows. It is meant to be captured; call the captured function after
  /// `flush_next`.
  void apply_nothing(std::span<const Variable> parameters);

  /// The constructor's arguments, by name. A resumed run compares them with those of the run that it
  /// continues.
  std::vector<std::pair<std::string, std::string>> choices() const;
  /// A description for comparisons between ranks, one line per item: rule, options, and the parameters that
  /// have states.
  std::vector<std::string> description() const;
  /// Whether gradients are summed in the order of a tree (StepOptions::exact_sums).
  bool exact_sums() const { return options_.exact_sums; }
  /// The ranks that train together. Their notes (comm/group/rank_notes.h) are sent with every update.
  comm::Group& group() const {
    require_here();
    return *options_.group;
  }

  /// The loss multiplied by the loss scale; without loss scaling, `loss` itself. Differentiate this if you
  /// call `apply` yourself.
  Tensor scaled(const Tensor& loss) const;
  /// Whether the optimizer scales the loss (StepOptions::loss_scale).
  bool scales_loss() const { return options_.loss_scale.initial > 0; }
  /// 1 without loss scaling.
  double loss_scale() const;
  /// The number of updates skipped because their gradients weren't finite; 0 without loss scaling, because
  /// only loss scaling checks this.
  int64_t skipped_steps() const;

  /// The parameters with states, in the order of the first step.
  std::vector<Variable> parameters() const;
  /// The newest gradients of the optimizer's parameters, under the parameters' names. Empty without
  /// StepOptions::keep_gradients and before the first step.
  std::vector<Variable> kept_gradients() const;
  /// Everything that a checkpoint must save: the slots and the states made so far, under names unique within
  /// the optimizer that begin with the present names of the parameters. Throws kInvalidArgument while
  /// AveragedWeights live.
  std::vector<Variable> state() const;
  /// Bytes of the states made so far, without the slots.
  size_t state_bytes() const;

 protected:
  struct State {
    std::string name;
    double initial = 0;
  };
  /// An update op (ops/optimizer/optimizer_updates.h) with its attributes, and the states in the op's order.
  struct Rule {
    std::string_view op;
    graph::Attributes attributes;
    std::vector<State> states;
  };
  Optimizer(Rule rule, Schedule learning_rate, WeightDecay weight_decay, StepOptions options);

 private:
  friend class AveragedWeights;
  struct Entry {
    Variable parameter;
    std::vector<Variable> states;
    std::vector<Variable> sums;  // of gradients, if micro-batches are accumulated
    Variable average;            // if averages are kept
    Variable gradient;           // if gradients are kept
  };
  /// The variables that one update changes, in the order of the update ops' results, and related data.
  struct Update;
  /// Parameters with their gradients. Parameters that are updated by rows come last, with the sums of their
  /// rows.
  struct Gradients;
  /// The assignments of a step. All are made at its end, so that a step that throws changes nothing.
  using Changes = std::vector<std::pair<Variable, Tensor>>;

  bool accumulates() const { return options_.accumulate > 1; }
  /// Whether the rule reads the count of a parameter's own updates.
  bool counts_missed() const;
  bool distributed() const { return options_.group->size() > 1; }
  /// Whether gradients are those of the loss summed over a micro-batch's rows. The total gradient is divided
  /// by the number of all rows at the end.
  bool sums_rows() const { return accumulates() || distributed(); }
  /// How many sums of all gradients the optimizer keeps.
  size_t sum_count() const;
  void require_here() const;
  void require_own_weights(std::string_view what) const;
  void name_slots() const;
  void check_options() const;
  void check_rows(const Tensor& rows) const;
  void check_filters(std::span<const Variable> parameters) const;
  std::vector<Variable> scale_slots() const;
  const ParameterGroup* group_of(const Variable& parameter) const;
  double decay_of(const Variable& parameter) const;
  /// Whether weight decay is added to gradients.
  bool adds_l2() const;
  graph::Attributes attributes_for(std::span<const Variable> parameters) const;
  const Entry& entry_of(const Variable& parameter, size_t hint) const;

  // optim/row_gradients.cc
  std::vector<ops::RowGradient> row_gradients_of(const Variable& parameter, const Tensor& gradient) const;
  Gradients by_rows(std::span<const Variable> parameters, std::span<const Tensor> gradients) const;

  void put_in_order(std::vector<Variable>& parameters, std::vector<Tensor>& gradients) const;
  void apply_sums(std::span<const Variable> parameters, std::span<const Tensor> gradients,
                  const Tensor& rows);

  // optim/optimizer_step.cc
  Update update_of(const Gradients& gradients, const std::vector<bool>& uses) const;
  void step(std::span<const Variable> parameters, std::vector<Tensor> gradients,
            const std::vector<bool>& uses, const Tensor& rows);
  Changes gradient_copies(std::span<const Variable> parameters, std::span<const Tensor> gradients,
                          const Tensor& rows) const;
  std::vector<Tensor> accumulate_gradients(Update& update, std::span<const Tensor> gradients,
                                           const Tensor& rows, Tensor& total_rows, Tensor& due,
                                           Changes& changes) const;
  void exchange(std::vector<Tensor>& gradients, Tensor& rows) const;
  Tensor squares_of(const Update& update, std::span<const Tensor> gradients) const;
  std::vector<Tensor> update_if_finite(const Update& update, std::span<const Tensor> state,
                                       std::span<const Tensor> gradients, const Tensor& total_rows) const;
  std::vector<Tensor> update_parameters(const Update& update, std::span<const Tensor> state,
                                        std::vector<Tensor> gradients, Tensor factor,
                                        const Tensor& squares) const;

  const graph::OpDef* op_;
  graph::Attributes attributes_;
  std::vector<State> states_;
  Schedule schedule_;
  graph::Setting schedules_set_{0};  // how often set_schedule was called
  graph::Setting averaged_{0};       // how many AveragedWeights live
  graph::Setting prepared_{0};       // the number of `entries_`
  WeightDecay weight_decay_;
  StepOptions options_;
  std::vector<double> first_factors_;  // of the parameter groups; empty if none was ever changed
  Variable learning_rate_;
  Variable step_;
  Variable phase_;          // i64 (), defined if micro-batches are accumulated, like the next two
  Variable rows_;           // f64 (), summed over the group so far
  Variable flush_;          // bool ()
  Variable loss_scale_;     // f32 (), defined under loss scaling, like the next two
  Variable clean_updates_;  // i64 (), since the scale last changed
  Variable skipped_;        // i64 ()
  std::vector<Entry> entries_;
  std::optional<Participation> participation_;  // of `entries_`, if their counts or micro-batches matter
};

/// During its lifetime, every parameter of the optimizer holds its average (StepOptions::ema_decay), and the
/// average holds the parameter. Use it to evaluate, predict or save weights; a step during this time throws
/// kInvalidArgument and changes nothing. Captured functions see the swapped contents without a new capture;
/// on the CPU the swap allocates nothing. Throws kInvalidArgument if no averages are kept or others live,
/// kCaptureViolation in a capture.
class AveragedWeights {
 public:
  explicit AveragedWeights(Optimizer& optimizer);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;
  /// Ends the exchange now: the parameters keep the averages, and the optimizer's averages get the same
  /// content.
  void keep();

 private:
  void exchange();
  std::vector<std::pair<Variable, Variable>> pairs_;
  graph::Setting live_;  // the optimizer's number of live AveragedWeights
  bool kept_ = false;
};

}  // namespace isochron::optim
