// What a Trainer does with one batch, as functions that are called only to be captured: once for each
// signature of the data, inside one step with the bookkeeping of loss and metrics.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isochron/data/element.h"
#include "isochron/graph/precision.h"
#include "isochron/nn/losses.h"
#include "isochron/nn/metrics.h"
#include "isochron/nn/module.h"
#include "isochron/optim/optimizer.h"

namespace isochron::train {

/// One metric of a run. `metric` says what to compare; metrics that a step of one's own updates need no
/// `update`.
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

/// A loss of the mean over a batch: a function of this project (`nn::mean_squared_error`) or any callable of
/// (prediction, target).
class Loss {
 public:
  template <typename Options>
  Loss(Tensor (*function)(const Tensor&, const Tensor&, const Options&))
      : function_([function](const Tensor& prediction, const Tensor& target) {
          return function(prediction, target, {});
        }) {}
  template <typename F>
  requires std::is_invocable_r_v<Tensor, F, const Tensor&, const Tensor&> Loss(F function)
      : function_(std::move(function)) {}
  Tensor operator()(const Tensor& prediction, const Tensor& target) const {
    return function_(prediction, target);
  }

 private:
  std::function<Tensor(const Tensor&, const Tensor&)> function_;
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
  /// What `train` updates with, where it accumulates micro-batches: the last group of an epoch is then
  /// updated with whatever it holds, and steps that update are told apart from those that only sum.
  optim::Optimizer* optimizer = nullptr;
  /// What all three are captured in.
  Precision precision = Precision::kF32;
};

/// The usual: element 0 of a batch goes through `model`, element 1 is the target. All three must outlive the
/// result.
BatchFunctions supervised(nn::Module& model, Loss loss, optim::Optimizer& optimizer,
                          std::vector<NamedMetric> metrics = {});

}  // namespace isochron::train
