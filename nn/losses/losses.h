// Losses, by the definitions of Keras 3 (keras.io/api/losses). A loss is computed per element (or per row).
// It is then reduced in two steps: `per_sample` reduces the losses within each sample (index of the first
// axis), `reduction` reduces the losses of the samples. Both default to the mean, which gives the mean over
// all elements. PyTorch's reductions go over all elements at once:
//
//   PyTorch              here
//   reduction="mean"     the default
//   reduction="sum"      {.reduction = Reduction::kSum, .per_sample = Reduction::kSum}
//   reduction="none"     {.reduction = Reduction::kNone, .per_sample = Reduction::kNone}
//   the sum over the elements, the mean over the batch   {.per_sample = Reduction::kSum}
//
// Predictions and targets must have one shape: (32, 1) against (32) is kShapeMismatch, never a broadcast.
//
// Further losses are in regression_losses.h, overlap_losses.h, margin_losses.h, likelihood_losses.h,
// focal_losses.h and ctc.h in this folder.
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
  /// (N), of the losses' dtype: a weight for each sample. Undefined: all weights are 1.
  Tensor sample_weights = {};
  /// How the losses within a sample are reduced to the sample's loss: kMean, kSum or kNone. With kNone they
  /// are not reduced, and `reduction` applies to all of them at once (kNone then returns (N, ...)).
  Reduction per_sample = Reduction::kMean;
};

/// Reduces losses (N) of samples, or (N, ...) of their elements, as `options` say; for user-defined losses.
/// Throws kShapeMismatch and kDtypeMismatch for weights that don't fit, and kInvalidArgument for
/// kWeightedMean without weights or as `per_sample`.
Tensor reduce_losses(const Tensor& losses, const LossOptions& options);

/// prediction, target: (N, ...). With e = prediction - target, an element's loss is e^2 (mean_squared_error),
/// |e| (mean_absolute_error), or |e| <= delta ? e^2 / 2 : delta (|e| - delta / 2) (huber). Throw
/// kShapeMismatch, kDtypeMismatch.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
Tensor mean_absolute_error(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
/// Throws kInvalidArgument unless delta > 0.
Tensor huber(const Tensor& prediction, const Tensor& target, double delta = 1,
             const LossOptions& options = {});

/// log cosh e, computed as e + softplus(-2 e) - log 2, which never overflows.
Tensor log_cosh(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

/// Minus the cosine of the angle between prediction and target along the last axis, in [-1, 1]: Keras's
/// definition. A vector's length counts as at least 1e-6. If pairs may be similar or dissimilar, use
/// cosine_embedding.
Tensor cosine_similarity_loss(const Tensor& prediction, const Tensor& target,
                              const LossOptions& options = {});

/// Kullback-Leibler divergence of the target distribution from the prediction's, sum t log(t / p) over the
/// last axis. `kl_divergence` follows Keras and clips both distributions to [1e-7, 1]. In
/// `kl_divergence_from_logits`, p is the softmax of the logits; it is PyTorch's kl_div of
/// log_softmax(logits), where 0 log 0 is 0 and nothing is clipped. PyTorch's reduction "batchmean" is kMean
/// for (N, C).
Tensor kl_divergence(const Tensor& probabilities, const Tensor& targets, const LossOptions& options = {});
Tensor kl_divergence_from_logits(const Tensor& logits, const Tensor& targets,
                                 const LossOptions& options = {});

// Cross-entropies: ops/reduction/softmax.h gives the formulas, dtypes and errors. The losses of rows (or
// elements) are reduced like the losses above.

/// With targets t as distributions (one-hot for labels) and class weights w, a row's loss is
/// -sum w_c t'_c log p_c, t' = (1 - label_smoothing) t + label_smoothing / C: PyTorch's definition, and
/// Keras's for the options that it has.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// In [0, 1].
  double label_smoothing = 0;
  /// (C), of the predictions' dtype. kMean divides by the number of rows, as Keras does; kWeightedMean by the
  /// sum of the rows' weights (times the samples'), as PyTorch does for labels: w_label, or sum w_c t_c.
  Tensor class_weights = {};
  /// Rows with this label, often -100 or a padding token, don't count. Their loss is 0, and their gradient is
  /// 0 if their predictions are finite. kMean divides by the number of the remaining rows, kWeightedMean by
  /// the sum of their weights; if no rows remain, the result is 0. Only for losses that take labels. If the
  /// losses of a sample are summed (per_sample), kMean divides by the number of samples.
  std::optional<int64_t> ignore_index = {};
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};

/// Cross-entropies of logits (N, ..., C) and either labels (N, ...) or target distributions (N, ..., C). They
/// throw kInvalidArgument for options outside their range, and kShapeMismatch and kDtypeMismatch for class
/// weights.
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels,
                                    const CrossEntropyOptions& options = {});
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& targets,
                             const CrossEntropyOptions& options = {});
/// The same for probabilities, for models that end in a softmax. The forms for logits are faster and more
/// precise.
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
  /// A weight above 1 favors recall. Of the predictions' dtype; broadcasts to their shape: (C) for (N, C).
  Tensor positive_weight = {};
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};

/// A binary decision for each element. Probabilities (or logits) and targets have the same shape, (N, ...);
/// otherwise both functions throw kShapeMismatch.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            const BinaryCrossEntropyOptions& options = {});
Tensor binary_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options = {});

}  // namespace isochron::nn
