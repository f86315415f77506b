// Connectionist temporal classification (Graves et al. 2006): for sequences of labels whose order is known
// but not their positions in time, as in speech and handwriting.
#pragma once

#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

struct CtcOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// The index of the blank class, in [0, C).
  int64_t blank = 0;
  /// Whether a sample without any possible alignment, because it has too few steps for its labels, has loss 0
  /// instead of infinity. Its gradient is 0 in both cases.
  bool zero_infinity = false;
  /// kMean divides a sample's loss by the number of its labels, at least 1, as PyTorch's "mean" does; kSum
  /// and kNone leave it as it is, as PyTorch's other reductions and Keras's CTC do.
  Reduction per_sample = Reduction::kMean;
};

/// The negative log-likelihood of the labels: minus the logarithm of the total probability of all alignments
/// that yield the labels when first repeated labels and then blanks are removed. PyTorch's F.ctc_loss, batch
/// first.
///
/// log_probabilities: (N, T, C), a log_softmax, floating; 16-bit ones are computed in f32. labels: (N, L),
/// none of them the blank; input_lengths, label_lengths: (N); all three i64 or i32. Elements beyond the
/// lengths are ignored, whatever they are. An input length above T counts as T, a negative one as 0. A label
/// length above L or below 0 has no alignment.
///
/// The gradient is the derivative of the formula. PyTorch's gradient differs from it by e^log_probabilities;
/// after the backward pass of the log_softmax, both are the same. Time and memory grow with N T (C + L).
/// Throws kShapeMismatch, kDtypeMismatch, kInvalidArgument for a blank outside [0, C), and, when it runs,
/// kOutOfRange for a label outside [0, C).
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& labels, const Tensor& input_lengths,
                const Tensor& label_lengths, const CtcOptions& options = {});

}  // namespace isochron::nn
