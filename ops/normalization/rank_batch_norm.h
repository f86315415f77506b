// Batch normalization by the moments of the batches of several ranks together.
#pragma once

#include "isochron/ops/collective/collectives.h"
#include "isochron/ops/normalization/normalization.h"

namespace isochron {

/// What batch normalization over ranks makes: this rank's y; the moments of each channel that all went by,
/// (C); and over how many rows these were taken on all ranks together, f64 ().
struct NormalizedRanks {
  Tensor y;
  Moments moments;
  Tensor rows;
};
/// `batch_norm` of the batches of all ranks of a group as one: every rank's counts by its rows, of which it
/// may have any number from 1 on (a row: all axes of x but the last). x: (..., C), with the same C and dtype
/// on all ranks; gamma and beta: (C), the same numbers on all ranks, or undefined.
///
/// One all_gather of means, variances and numbers of rows, from which every rank computes the moments of all
/// in f64 (Chan, Golub, LeVeque: "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
/// 1979): a large mean costs the variance no digits, and all ranks have the same bits. Gradients are those of
/// the sum of all ranks' results, as those of any collective are, and take one reduce_scatter; those of gamma
/// and beta are of this rank's rows alone, to be summed over the ranks as all gradients are. In a group of
/// one rank it is batch_norm itself. Throws as batch_norm, and kInvalidArgument for a null group; on the CPU.
NormalizedRanks rank_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                                const RankGroup& group);

}  // namespace isochron
