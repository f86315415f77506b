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

// Cross-entropies: ops/softmax.h gives the formulas, dtypes and errors; here the losses of a sample's rows
// (or elements) are averaged, then reduced.

/// Classes from logits (N, ..., C) and labels (N, ...), or target distributions (N, ..., C).
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels,
                                    const LossOptions& options = {});
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& targets, const LossOptions& options = {});
/// The same from probabilities, for models that end in a softmax; from logits is faster and more precise.
Tensor sparse_categorical_cross_entropy(const Tensor& probabilities, const Tensor& labels,
                                        const LossOptions& options = {});
Tensor categorical_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                 const LossOptions& options = {});
/// Yes or no for each element: probabilities (or logits) and targets of one shape, (N, ...). Throw
/// kShapeMismatch otherwise.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const LossOptions& options = {});
Tensor binary_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets,
                                        const LossOptions& options = {});

}  // namespace isochron::nn
