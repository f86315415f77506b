// Losses, by the definitions of Keras 3 (keras.io/api/losses). Elements (or rows) have losses; those of a
// sample, a row of the first axis, become its loss as `per_sample` says, and those of the samples the result
// as `reduction` says. Both are means by default, which is the mean over all. PyTorch's reductions go over
// all elements at once:
//
//   PyTorch              here
//   reduction="mean"     the default
//   reduction="sum"      {.reduction = Reduction::kSum, .per_sample = Reduction::kSum}
//   reduction="none"     {.reduction = Reduction::kNone, .per_sample = Reduction::kNone}
//   the sum over the elements, the mean over the batch   {.per_sample = Reduction::kSum}
//
// Predictions and targets must have one shape: (32, 1) against (32) is kShapeMismatch, never a broadcast.
//
// regression_losses.h, overlap_losses.h, margin_losses.h, likelihood_losses.h, focal_losses.h and ctc.h
// beside this one hold further losses.
#pragma once

#include <optional>

#include "isochron/core/tensor/tensor.h"

namespace isochron::nn {

enum class Reduction {
  kMean,          // sum of the (weighted) losses / their number
  kSum,           // sum of the (weighted) losses
  kNone,          // the (weighted) losses: (N)
  kWeightedMean,  // sum of the weighted losses / sum of the weights: padding of weight 0 counts for nothing
};

struct LossOptions {
  Reduction reduction = Reduction::kMean;
  /// (N), of the losses' dtype: a factor for each sample. Undefined: all 1.
  Tensor sample_weights = {};
  /// How the losses within a sample become its loss: kMean, kSum, or kNone, where they stay as they are and
  /// `reduction` goes over all of them (kNone then gives (N, ...)).
  Reduction per_sample = Reduction::kMean;
};

/// Losses (N) of samples, or (N, ...) of their elements, reduced as `options` say: for losses of one's own.
/// Throws kShapeMismatch and kDtypeMismatch for weights that don't fit, kInvalidArgument for kWeightedMean
/// without weights or within samples.
Tensor reduce_losses(const Tensor& losses, const LossOptions& options);

/// prediction, target: (N, ...); an element's loss is e^2, |e|, and
/// |e| <= delta ? e^2 / 2 : delta (|e| - delta / 2), where e = prediction - target. Throw kShapeMismatch,
/// kDtypeMismatch.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
Tensor mean_absolute_error(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
/// Throws kInvalidArgument unless delta > 0.
Tensor huber(const Tensor& prediction, const Tensor& target, double delta = 1,
             const LossOptions& options = {});

/// log cosh e, computed as e + softplus(-2 e) - log 2, which never overflows.
Tensor log_cosh(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

/// Minus the cosine of the angle between prediction and target along the last axis, in [-1, 1]: Keras's
/// definition. A vector's length counts as at least 1e-6. For pairs of two kinds: cosine_embedding.
Tensor cosine_similarity_loss(const Tensor& prediction, const Tensor& target,
                              const LossOptions& options = {});

/// Kullback-Leibler divergence of the target distribution from the prediction's, sum t log(t / p) over the
/// last axis. From probabilities: Keras's definition, both clipped to [1e-7, 1]. From logits, p being their
/// softmax: PyTorch's kl_div of log_softmax(logits), where 0 log 0 is 0 and nothing is clipped; its
/// "batchmean" is kMean for (N, C).
Tensor kl_divergence(const Tensor& probabilities, const Tensor& targets, const LossOptions& options = {});
Tensor kl_divergence_from_logits(const Tensor& logits, const Tensor& targets,
                                 const LossOptions& options = {});

// Cross-entropies: ops/reduction/softmax.h gives the formulas, dtypes and errors. The losses of rows (or
// elements) are reduced as those above.

/// With targets t as distributions (one-hot for labels) and class weights w, a row's loss is
/// -sum w_c t'_c log p_c, t' = (1 - label_smoothing) t + label_smoothing / C: the definition of PyTorch, and
/// that of Keras where it has the option.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// In [0, 1].
  double label_smoothing = 0;
  /// (C), of the predictions' dtype. kMean divides by the number of rows, as Keras does; kWeightedMean by the
  /// sum of the rows' weights (times the samples'), as PyTorch does for labels: w_label, or sum w_c t_c.
  Tensor class_weights = {};
  /// Rows of this label, often -100 or a padding token, have loss and gradient 0 and don't count: kMean
  /// divides by the number of the others, kWeightedMean by their weights; 0 when there are none. Labels only.
  /// Where samples are summed (per_sample), kMean divides by the number of samples.
  std::optional<int64_t> ignore_index = {};
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};

/// Classes from logits (N, ..., C) and labels (N, ...), or target distributions (N, ..., C). Throw
/// kInvalidArgument for options outside their range, kShapeMismatch and kDtypeMismatch for class weights.
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels,
                                    const CrossEntropyOptions& options = {});
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& targets,
                             const CrossEntropyOptions& options = {});
/// The same from probabilities, for models that end in a softmax; from logits is faster and more precise.
Tensor sparse_categorical_cross_entropy(const Tensor& probabilities, const Tensor& labels,
                                        const CrossEntropyOptions& options = {});
Tensor categorical_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                 const CrossEntropyOptions& options = {});

/// With targets t' = (1 - label_smoothing) t + label_smoothing / 2 and positive weight w, an element's loss
/// is -w t' log p - (1 - t') log(1 - p): PyTorch's pos_weight, Keras's smoothing.
struct BinaryCrossEntropyOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// In [0, 1].
  double label_smoothing = 0;
  /// Above 1 favours recall. Of the predictions' dtype; broadcast to their shape, (C) for (N, C).
  Tensor positive_weight = {};
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};

/// Yes or no for each element: probabilities (or logits) and targets of one shape, (N, ...). Throw
/// kShapeMismatch otherwise.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const BinaryCrossEntropyOptions& options = {});
Tensor binary_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options = {});

}  // namespace isochron::nn
