// Softmax and the cross-entropies. Losses are per sample; reduce them with `mean` or nn's reductions.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// e^(x - max) / sum over `axis`. Floating dtypes. Throws kOutOfRange for the axis.
Tensor softmax(const Tensor& x, int64_t axis = -1);
/// x - log sum e^x over `axis`, computed relative to the largest element, so that nothing overflows. Throws
/// like `softmax`.
Tensor log_softmax(const Tensor& x, int64_t axis = -1);

/// -log softmax(logits)[label] of each row, in one pass. logits: (..., C), labels: (...), i64 or i32; result
/// (...). Throws kShapeMismatch, kDtypeMismatch, and, when it runs, kOutOfRange naming row and label for a
/// label outside [0, C).
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels);
/// -sum targets * log_softmax(logits) over the last axis. logits, targets: (..., C).
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& targets);

/// Cross-entropies from probabilities (after a softmax), as Keras defines them: rows are divided by their sum
/// and clipped to [epsilon, 1 - epsilon], epsilon 1e-7, before the logarithm. Clipped elements have gradient
/// 0. probabilities: (..., C); labels: (...); targets: (..., C). They throw the same errors as the functions
/// of logits above.
Tensor sparse_categorical_cross_entropy(const Tensor& probabilities, const Tensor& labels);
Tensor categorical_cross_entropy(const Tensor& probabilities, const Tensor& targets);

/// Elementwise -t log p - (1 - t) log(1 - p), with p clipped as above. The second function takes logits x
/// instead and doesn't clip: max(x, 0) - x t + log(1 + e^-|x|). Throw kShapeMismatch, kDtypeMismatch.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets);
Tensor binary_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets);

}  // namespace isochron
