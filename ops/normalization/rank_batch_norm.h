// Batch normalization over the batches of several ranks.
#pragma once

#include "isochron/ops/collective/collectives.h"
#include "isochron/ops/normalization/normalization.h"

namespace isochron {

/// y: this rank's result. moments: the mean and variance of each channel over all ranks, (C). rows: the
/// number of rows of all ranks, f64 ().
struct NormalizedRanks {
  Tensor y;
  Moments moments;
  Tensor rows;
};
/// Like `batch_norm` of the concatenated batches of all ranks in `group`. x: (..., C), with the same C and
/// dtype on all ranks, and at least one row (one position of all axes but the last); ranks may have different
/// numbers of rows. gamma and beta: (C), with the same content on all ranks, or undefined.
///
/// The ranks exchange means, variances and numbers of rows by one all_gather. Each rank then combines them in
/// f64 (Chan, Golub, LeVeque: "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
/// 1979), so a large mean doesn't make the variance inaccurate, and all ranks get the same bits. As for any
/// collective, the gradient of x is the gradient of the sum of all ranks' results; it takes one
/// reduce_scatter. The gradients of gamma and beta cover this rank's rows only; the optimizer sums them over
/// the ranks like all gradients. In a group of one rank this is batch_norm. CPU only. Throws like batch_norm,
/// and kInvalidArgument for a null group.
NormalizedRanks rank_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                                const RankGroup& group);

}  // namespace isochron
