// Optimizer: what all optimizers share. It owns the slots (learning rate, steps done, and those that
// accumulation and loss scaling need) and one set of states per parameter, and turns gradients into one call
// of an update op (ops/optimizer/optimizer_updates.h). The same calls serve captured and eager code; in
// captured code the update is in place.
//
// Tables of which a step reads a few rows (nn::Embedding, gather along the first axis, nn::EmbeddingBag) have
// row-sparse gradients (ops/indexing/row_updates.h), and only these rows are updated, in place, where
//
//   - the layer was told so (`sparse`): states of other rows don't move, whatever they hold, as in PyTorch's
//     SparseAdam. Without momentum, SGD and Adagrad give what they always give; all others are lazy: a moment
//     decays, and the parameter moves on by it, only in steps that read the row. The bias correction counts
//     all steps. PyTorch's SparseAdam is Adam with epsilon 1e-8, its SGD and Adagrad those of
//     optim/optimizers.h in their PyTorch form.
//   - it makes no difference, not of one bit: SGD without momentum and Adagrad, without decay of the
//     parameter and without clipping by norm or scaling by hand, where the table is read once, on at most
//     half as many places as it has rows.
//
// A captured step then costs the same however many rows the table has; eager updates copy the table.
// Clipping, loss scaling and groups work on the rows as on any gradient, since both have the same norm.
// Between `gradients` and `apply` in a capture, clipping by a norm, division by a loss scale and negation
// keep a gradient row-sparse.
//
// These need the dense gradient: a table that is also read in another way (tied weights), gradient
// accumulation, noise, weight decay of the table, LAMB and Adafactor, and any other change of the gradient by
// hand (clip, where). There SGD and Adagrad update all rows, with correct results, and so does every other
// optimizer on a layer without `sparse`. On a layer with `sparse` the update could not be lazy, so it throws
// kUnsupported, except for tied weights, where every row has a gradient.
//
// Averages (average_decay) and kept gradients cost a pass over the table. Checkpoints hold whole tables and
// states, so resuming needs nothing else.
//
// The kinds (optim/optimizers.h) differ only in what they give the constructor, so any of them may be moved
// into an Optimizer.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/graph/capture/variable.h"
#include "isochron/graph/ir/op.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/optim/schedules.h"
#include "isochron/optim/step_options.h"

namespace isochron::optim {

class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// One that was moved from throws kInvalidArgument where it is used.
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  /// One step down d loss / d parameters: differentiates (in a capture: the graph; else: what the innermost
  /// GradientTape recorded) and applies. The loss is a mean over `rows` samples, which matters where
  /// micro-batches of different sizes are accumulated. Parameters that aren't trainable are skipped. Throws
  /// kCaptureViolation without capture and tape; kInvalidArgument where the loss has a gradient for trainable
  /// variables that aren't among `parameters` (but see StepOptions::allow_untrained), naming them; kStale
  /// where it was computed before a parameter's newest update; kShapeMismatch where it is more than one
  /// number; and what `apply` throws.
  void minimize(const Tensor& loss, std::span<const Variable> parameters, double rows = 1);
  /// rows: f64 (), such as the number of tokens that aren't padding.
  void minimize(const Tensor& loss, std::span<const Variable> parameters, const Tensor& rows);
  /// One step along gradients[i], the gradient of parameters[i]; parameters that aren't trainable are
  /// skipped, whatever their gradient. Under loss scaling: the gradients of `scaled(loss)`. The first call
  /// makes the states of its parameters. Throws kInvalidArgument: another number of gradients than
  /// parameters, a gradient that is missing (but see StepOptions::allow_unused), a repeated parameter,
  /// nothing to update, a parameter that the first call did not have, at the first call a parameter group or
  /// a filter of the weight decay that holds for none of `parameters`; kShapeMismatch and kDtypeMismatch as
  /// the update op does. Nothing is changed then.
  void apply(std::span<const Variable> parameters, std::span<const Tensor> gradients, double rows = 1);
  void apply(std::span<const Variable> parameters, std::span<const Tensor> gradients, const Tensor& rows);
  /// Makes the states of the trainable ones of `parameters` now, as the first step would: for restoring them
  /// before it. Does nothing where they exist. Throws kInvalidArgument as `apply`.
  void prepare(std::span<const Variable> parameters);

  /// The learning rate of the next step; f64. Reaches captured steps without a new capture.
  double learning_rate() const;
  /// Throws kInvalidArgument unless it is finite and >= 0, or where a schedule computes it; kCaptureViolation
  /// in a capture (assign a tensor to the slot there).
  void set_learning_rate(double learning_rate);
  /// From the next update on the learning rate follows `schedule`, by the number of updates done. Takes
  /// effect for captures made afterwards. Throws kCaptureViolation in a capture.
  void set_schedule(Schedule schedule);
  /// f64 ().
  const Variable& learning_rate_slot() const { return learning_rate_; }
  /// Updates done so far. i64 ().
  int64_t step_count() const;
  const Variable& step_slot() const { return step_; }

  /// Micro-batches that one update takes.
  int64_t accumulate() const { return options_.accumulate; }
  /// How many of them the next update has already; the next micro-batch is number `phase()` of its group,
  /// from 0.
  int64_t phase() const;
  /// Makes the next micro-batch the last of its group, however few there are: the end of an epoch. Reaches
  /// captured steps without a new capture. Throws kCaptureViolation in a capture.
  void flush_next();
  /// Takes part in an update for which this rank has no micro-batch left while other ranks have: like `apply`
  /// with zero gradients of zero rows. It is meant to be captured; call the captured function after
  /// `flush_next`.
  void apply_nothing(std::span<const Variable> parameters);

  /// What it is and does, a line each, for comparing: rule, options, and the parameters that it has states
  /// for.
  std::vector<std::string> description() const;
  /// Whether gradients are summed in the order of a tree (StepOptions::exact_sums).
  bool exact_sums() const { return options_.exact_sums; }
  /// The ranks that train together, whose notes (comm/group/rank_notes.h) travel with every update.
  comm::Group& group() const { return *options_.group; }

  /// loss x the loss scale: what to differentiate where `apply` is called by hand. `loss` itself without
  /// scaling.
  Tensor scaled(const Tensor& loss) const;
  /// Whether it scales the loss (StepOptions::loss_scale).
  bool scales_loss() const { return options_.loss_scale.initial > 0; }
  /// 1 without loss scaling.
  double loss_scale() const;
  /// Updates left out since their gradients weren't finite; 0 without loss scaling, which looks for that.
  int64_t skipped_steps() const;

  /// The parameters that it has states for, in the order of its first step.
  std::vector<Variable> parameters() const;
  /// The newest gradients of its parameters, under their names: StepOptions::keep_gradients. Empty without,
  /// and before the first step.
  std::vector<Variable> kept_gradients() const;
  /// Everything that a checkpoint must save, under names unique within the optimizer: the slots and the
  /// states made so far.
  std::vector<Variable> state() const;
  /// Bytes of the states made so far, without the slots.
  size_t state_bytes() const;

 protected:
  struct State {
    std::string name;
    double initial = 0;
  };
  /// An update op (ops/optimizer/optimizer_updates.h) with its attributes, and its states in its order.
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
    std::vector<Variable> sums;  // of gradients, where micro-batches are accumulated
    Variable average;            // where averages are kept
    Variable gradient;           // where gradients are
  };
  /// What one update changes, in the order of the update ops' results, and what belongs to it.
  struct Update;
  /// Parameters with their gradients; those updated by rows come last, with the sums of their rows.
  struct Gradients;
  /// What a step assigns. It assigns everything at its end, so that a step that throws changes nothing.
  using Changes = std::vector<std::pair<Variable, Tensor>>;

  bool accumulates() const { return options_.accumulate > 1; }
  bool distributed() const { return options_.group->size() > 1; }
  /// Gradients are those of the sum over a micro-batch's rows, to be divided by all rows at last.
  bool sums_rows() const { return accumulates() || distributed(); }
  /// Sums of all gradients that it keeps.
  size_t sums() const;
  void require_here() const;
  void check_options() const;
  void check_rows(const Tensor& rows) const;
  void check_filters(std::span<const Variable> parameters) const;
  std::vector<Variable> scale_slots() const;
  const ParameterGroup* group_of(const Variable& parameter) const;
  double decay_of(const Variable& parameter) const;
  graph::Attributes attributes_for(std::span<const Variable> parameters) const;
  const Entry& entry_of(const Variable& parameter, size_t hint) const;

  // optim/row_gradients.cc
  std::vector<ops::RowGradient> rows_of(const Variable& parameter, const Tensor& gradient) const;
  Gradients by_rows(std::span<const Variable> parameters, std::span<const Tensor> gradients) const;

  void apply_sums(std::span<const Variable> parameters, std::span<const Tensor> gradients,
                  const Tensor& rows);

  // optim/optimizer_step.cc
  Update update_of(const Gradients& gradients) const;
  void step(std::span<const Variable> parameters, std::vector<Tensor> gradients, const Tensor& rows);
  Changes kept(std::span<const Variable> parameters, std::span<const Tensor> gradients,
               const Tensor& rows) const;
  std::vector<Tensor> sum_up(const Update& update, std::span<const Tensor> gradients, const Tensor& rows,
                             Tensor& total_rows, Tensor& due, Changes& changes) const;
  void exchange(std::vector<Tensor>& gradients, Tensor& rows) const;
  std::vector<Tensor> unscaled(const Update& update, std::span<const Tensor> state,
                               std::span<const Tensor> gradients, const Tensor& total_rows) const;
  std::vector<Tensor> updated(const Update& update, std::span<const Tensor> state,
                              std::vector<Tensor> gradients, Tensor factor, const Tensor& squares) const;

  const graph::OpDef* op_;
  graph::Attributes attributes_;
  std::vector<State> states_;
  Schedule schedule_;
  WeightDecay weight_decay_;
  StepOptions options_;
  Variable learning_rate_;
  Variable step_;
  Variable phase_;          // i64 (), defined where micro-batches are accumulated, as the next two
  Variable rows_;           // f64 (), summed over the group so far
  Variable flush_;          // bool ()
  Variable loss_scale_;     // f32 (), defined under loss scaling, as the next two
  Variable clean_updates_;  // i64 (), since the scale last changed
  Variable skipped_;        // i64 ()
  std::vector<Entry> entries_;
};

/// While it lives, every parameter of the optimizer holds its average (StepOptions::average_decay), and the
/// average holds the parameter: for evaluating, predicting or saving. No step may run meanwhile. Captured
/// functions see the exchange without a new capture; on the CPU it allocates nothing. Throws kInvalidArgument
/// where no averages are kept, kCaptureViolation in a capture.
class AveragedWeights {
 public:
  explicit AveragedWeights(Optimizer& optimizer);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  void exchange();
  std::vector<std::pair<Variable, Variable>> pairs_;
};

}  // namespace isochron::optim
