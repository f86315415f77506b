// The functions that a Trainer applies to a batch. They are called only to be captured, once per signature of
// the data, as part of a step that also updates the tallies of loss and metrics.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/data/element/element.h"
#include "isochron/graph/passes/precision.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/losses/metrics.h"
#include "isochron/nn/module/module.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/checkpoints/checkpoint.h"

namespace isochron::train {

/// The rows of a batch: the first extent of its first tensor, or 1 if that tensor is a scalar.
inline int64_t batch_rows(const data::Element& batch) { return batch[0].rank() > 0 ? batch[0].extent(0) : 1; }

/// One metric of a run. The function `metric` below sets `update`; a metric that a custom step updates itself
/// needs none.
struct NamedMetric {
  std::string name;
  std::shared_ptr<nn::Metric> metric;
  std::function<void(const Tensor& prediction, const Tensor& target)> update = {};
};
/// `metric("accuracy", nn::SparseCategoricalAccuracy())`.
template <std::derived_from<nn::Metric> M>
NamedMetric metric(std::string name, M values) {
  auto shared = std::make_shared<M>(std::move(values));
  return {std::move(name), shared,
          [shared](const Tensor& prediction, const Tensor& target) { shared->update(prediction, target); }};
}

/// A loss that is a mean over a batch: a function of this project (`nn::mean_squared_error`) or any callable
/// of (prediction, target) or, to take sample weights, (prediction, target, weights (N)).
class Loss {
 public:
  template <typename Options>
  requires requires(const Tensor& weights) { Options{.sample_weights = weights}; }
  Loss(Tensor (*function)(const Tensor&, const Tensor&, const Options&))
      : function_([function](const Tensor& prediction, const Tensor& target, const Tensor& weights) {
          return function(prediction, target, {.sample_weights = weights});
        }) {}
  template <typename F>
  requires std::is_invocable_r_v<Tensor, F, const Tensor&, const Tensor&, const Tensor&> Loss(F function)
      : function_(std::move(function)) {}
  template <typename F>
  requires(std::is_invocable_r_v<Tensor, F, const Tensor&, const Tensor&> &&
           !std::is_invocable_v<F, const Tensor&, const Tensor&, const Tensor&>) Loss(F function)
      : function_([function = std::move(function)](const Tensor& prediction, const Tensor& target,
                                                   const Tensor& weights) {
          require(!weights.defined(), ErrorCode::kUnsupported, "train",
                  "this loss takes no sample weights; give it a third argument for them");
          return function(prediction, target);
        }) {}
  /// `weights`: (N), undefined for none.
  Tensor operator()(const Tensor& prediction, const Tensor& target, const Tensor& weights = {}) const {
    return function_(prediction, target, weights);
  }

 private:
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> function_;
};

using BatchFunction = std::function<Tensor(const data::Element& batch)>;

/// An empty function makes the calls that need it throw kUnsupported.
struct BatchFunctions {
  /// Forward, backward and update, with the metrics updated; gives the batch's mean loss, one floating
  /// number.
  BatchFunction train = {};
  /// The same without backward and update; traced with nn::training() false.
  BatchFunction evaluate = {};
  /// Gives (N, ...) for N rows; traced with nn::training() false.
  BatchFunction predict = {};
  std::vector<NamedMetric> metrics = {};
  /// The optimizer that `train` steps; null: none. Needed if several ranks train together, and if the
  /// optimizer accumulates micro-batches: the last group of an epoch then updates even if it is incomplete,
  /// and steps that update are distinguished from steps that only accumulate. If it scales the loss, results
  /// include "loss_scale" and, for the whole run, "skipped_steps". A resumed run compares its options with
  /// those of the run before.
  optim::Optimizer* optimizer = nullptr;
  /// The precision in which the three functions are captured.
  Precision precision = Precision::kF32;
  /// The device on which they run. Parameters that layers build at their first call are built there.
  /// Parameters that are already built, and your own variables, must be moved (Variable::move_to).
  Device device = {};
  /// For checkpoints, as weights_of and slots_of return them: the model's variables, and the other variables
  /// that training changes. Called after planning. Without `weights` nothing can be saved.
  std::function<NamedVariables()> weights = {};
  std::function<NamedVariables()> slots = {};
  /// The model's averages over batches (nn::Module::averages), such as those of batch normalization: if
  /// several ranks train, fit replaces each by its mean over the ranks.
  std::function<std::vector<Variable>()> averages = {};
};

/// How much each sample of a batch counts in the loss, by Keras's definition: the sum of the weighted losses
/// is divided by the number of samples, and class weights count in training alone, not in evaluation. Metrics
/// aren't weighted.
struct SampleWeighting {
  bool from_batch = false;  // element 2 of a batch holds the weights, (N)
  /// A factor >= 0 for each class; empty: none. A sample's class is its label, or the class with the largest
  /// number in its target distribution. Throws kShapeMismatch unless there are as many factors as the model
  /// has classes.
  std::vector<double> class_weights = {};
};

/// The usual functions: element 0 of a batch goes through `model`, element 1 is the target. All three must
/// outlive the result. Batches that mark padded rows by 'valid' are refused (kUnsupported).
BatchFunctions supervised(nn::Module& model, Loss loss, optim::Optimizer& optimizer,
                          std::vector<NamedMetric> metrics = {}, SampleWeighting weighting = {});

}  // namespace isochron::train
