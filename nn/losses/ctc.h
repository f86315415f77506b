// Connectionist temporal classification (Graves et al. 2006): labels in order without their positions in
// time, as in speech and handwriting.
#pragma once

#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

struct CtcOptions {
  Reduction reduction = Reduction::kMean;
  Tensor sample_weights = {};  // as in LossOptions
  /// The class that stands for no label, in [0, C).
  int64_t blank = 0;
  /// A sample whose labels fit into no alignment, as there are too few steps for them, has loss 0 instead of
  /// infinity. Its gradient is 0 in both cases.
  bool zero_infinity = false;
  /// kMean divides a sample's loss by the number of its labels, at least 1, as PyTorch's "mean" does; kSum
  /// and kNone leave it as it is, as PyTorch's other reductions and Keras's CTC do.
  Reduction per_sample = Reduction::kMean;
};

/// The negative log-likelihood of the labels: minus the logarithm of the summed probabilities of all
/// alignments that become them once repeated labels and then blanks are dropped. PyTorch's F.ctc_loss, batch
/// first.
///
/// log_probabilities: (N, T, C), a log_softmax, floating; 16 bits are computed in f32. labels: (N, L),
/// none of them the blank; input_lengths, label_lengths: (N); all three i64 or i32. What lies beyond the
/// lengths is not looked at, whatever it is; an input length above T counts as T, a negative one as 0, and a
/// number of labels above L or below 0 has no alignment.
///
/// The gradient is that of the formula. PyTorch's differs by e^log_probabilities, and is the same after the
/// log_softmax. Time and memory grow with N T (C + L). Throws kShapeMismatch, kDtypeMismatch,
/// kInvalidArgument for a blank outside [0, C), kOutOfRange when run for a label outside it.
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& labels, const Tensor& input_lengths,
                const Tensor& label_lengths, const CtcOptions& options = {});

}  // namespace isochron::nn
