// Losses with a margin: scores of two or more classes, rankings, distances between embeddings. hinge,
// squared_hinge and categorical_hinge are Keras 3's (keras.io/api/losses), the others PyTorch's of the same
// names (nn.HingeEmbeddingLoss, nn.MarginRankingLoss, ...). The gradient at the kink of a hinge is 0, as in
// PyTorch; in Keras it depends on the backend. The results are reduced like the losses in nn/losses/losses.h;
// 16-bit operands are computed and summed in f32.
//
// Operands have one shape and one floating dtype unless the function says otherwise. All throw
// kShapeMismatch, kDtypeMismatch, and kInvalidArgument for an undefined operand or an empty batch.
#pragma once

#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

/// prediction, target: (N, ...), targets t of -1 or 1; 0 counts as -1. An element's loss is max(1 - t x, 0),
/// or its square.
Tensor hinge(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
Tensor squared_hinge(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

/// prediction, target: (N, ..., C), targets one-hot. A row's loss is max(negative - positive + 1, 0), where
/// positive = sum t x and negative = max (1 - t) x, which is at least 0.
Tensor categorical_hinge(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

/// distance, target: (N, ...), targets of 1 or -1. An element's loss is its distance x if t = 1, and
/// max(margin - x, 0) if t = -1.
Tensor hinge_embedding(const Tensor& distance, const Tensor& target, double margin = 1,
                       const LossOptions& options = {});

/// first, second, target: (N, ...). `first` should be larger if t = 1, and `second` if t = -1. An element's
/// loss is max(margin - t (first - second), 0).
Tensor margin_ranking(const Tensor& first, const Tensor& second, const Tensor& target, double margin = 0,
                      const LossOptions& options = {});

/// first, second: (N, ..., C), target: (N, ...), of 1 or -1. A row's loss is 1 - cos if t = 1, and
/// max(cos - margin, 0) if t = -1. A vector's length counts as at least 1e-6.
Tensor cosine_embedding(const Tensor& first, const Tensor& second, const Tensor& target, double margin = 0,
                        const LossOptions& options = {});

struct TripletMarginOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// > 0.
  double margin = 1;
  /// Added to each difference.
  double eps = 1e-6;
  /// Uses the negative's distance to the anchor or to the positive, whichever is smaller (Balntas et al.
  /// 2016).
  bool swap = false;
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};
/// anchor, positive, negative: (N, ..., C). A row's loss is max(d(anchor, positive) - d(anchor, negative) +
/// margin, 0), where d(a, b) = |a - b + eps| is the Euclidean distance, whose gradient at 0 is 0.
Tensor triplet_margin(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                      const TripletMarginOptions& options = {});

/// prediction, target: (N, ...), targets of -1 or 1. An element's loss is log(1 + e^(-t x)), which never
/// overflows.
Tensor soft_margin(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

struct MultiMarginOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// 1 or 2.
  int power = 1;
  double margin = 1;
  /// (C), of the predictions' dtype: a weight per label, applied to that label's rows. The mean is over the
  /// number of rows.
  Tensor class_weights = {};
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};
/// prediction: (N, ..., C), labels: (N, ...), integers. A row's loss is
/// w_label / C sum over c != label of max(margin - x_label + x_c, 0)^power. Throws kOutOfRange when run for a
/// label outside [0, C).
Tensor multi_margin(const Tensor& prediction, const Tensor& labels, const MultiMarginOptions& options = {});

}  // namespace isochron::nn
