// Focal cross-entropies (Lin et al. 2017), which give less weight to predictions that are nearly right, with
// the definitions of Keras 3 (keras.io/api/losses). The results are reduced like the losses in
// nn/losses/losses.h; 16-bit operands are computed and summed in f32. The forms that take logits clip
// nothing, so large logits keep their gradient, and a class with logit -inf adds no loss if its target is 0.
//
// prediction, target: of one shape and one floating dtype. All throw kShapeMismatch, kDtypeMismatch, and
// kInvalidArgument for an undefined operand, an empty batch or options outside their range.
#pragma once

#include <optional>

#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

struct BinaryFocalOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// At least 0; 0 gives the cross-entropy.
  double gamma = 2;
  /// In [0, 1]: the weight of targets of 1; targets of 0 have the weight 1 - alpha. Corresponds to Keras's
  /// apply_class_balancing with this alpha. If unset, all weights are 1.
  std::optional<double> alpha = {};
  /// In [0, 1]. Moves targets towards 1/2.
  double label_smoothing = 0;
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};
/// A binary decision for each element, (N, ...). An element's loss is that of `binary_cross_entropy` times (1
/// - p_t)^gamma, where p_t = t p + (1 - t) (1 - p).
Tensor binary_focal_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                  const BinaryFocalOptions& options = {});
Tensor binary_focal_cross_entropy_from_logits(const Tensor& logits, const Tensor& targets,
                                              const BinaryFocalOptions& options = {});

struct CategoricalFocalOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// At least 0; 0 gives the cross-entropy times alpha.
  double gamma = 2;
  double alpha = 0.25;
  /// (C), of the predictions' dtype: a weight per class. Corresponds to Keras's list of alphas, with .alpha =
  /// 1.
  Tensor class_weights = {};
  /// In [0, 1]. Moves targets towards 1 / C.
  double label_smoothing = 0;
  Reduction per_sample = Reduction::kMean;  // as in LossOptions
};
/// Predictions and target distributions over classes, (N, ..., C). A row's loss is -alpha sum w_c t_c (1 -
/// p_c)^gamma log p_c. Rows of probabilities are divided by their sum and clipped to [1e-7, 1 - 1e-7].
Tensor categorical_focal_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                                       const CategoricalFocalOptions& options = {});
Tensor softmax_focal_cross_entropy(const Tensor& logits, const Tensor& targets,
                                   const CategoricalFocalOptions& options = {});

}  // namespace isochron::nn
