// Losses, by the definitions of Keras 3 (keras.io/api/losses). A loss is first a number a sample (a row of
// the first axis), then reduced over the samples.
//
// Predictions and targets must have one shape: (32, 1) against (32) is kShapeMismatch, never a broadcast.
#pragma once

#include "isochron/core/tensor.h"

namespace isochron::nn {

enum class Reduction {
  kMean,          // sum of the (weighted) losses / number of samples
  kSum,           // sum of the (weighted) losses
  kNone,          // the (weighted) losses, (N)
  kWeightedMean,  // sum of the weighted losses / sum of the weights: padding of weight 0 counts for nothing
};

struct LossOptions {
  Reduction reduction = Reduction::kMean;
  /// (N), of the losses' dtype: a factor for each sample. Undefined: all 1.
  Tensor sample_weights = {};
};

/// Per-sample losses (N) reduced as `options` say: for losses of one's own. Throws kShapeMismatch and
/// kDtypeMismatch for weights that don't fit, kInvalidArgument for kWeightedMean without weights.
Tensor reduce_losses(const Tensor& losses, const LossOptions& options);

/// prediction, target: (N, ...); a sample's loss is the mean over its elements of e^2, |e|, and
/// |e| <= delta ? e^2 / 2 : delta (|e| - delta / 2), where e = prediction - target. Throw kShapeMismatch,
/// kDtypeMismatch.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
Tensor mean_absolute_error(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
/// Throws kInvalidArgument unless delta > 0.
Tensor huber(const Tensor& prediction, const Tensor& target, double delta = 1,
             const LossOptions& options = {});

}  // namespace isochron::nn
