// Adds the gradients of micro-batches in the order of a binary tree, so that their sum has the same bits no
// matter how an update's micro-batches are split into steps and ranks.
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The state after one micro-batch.
struct TreeSums {
  std::vector<Tensor> totals;  // sums over the group; undefined content unless `due` is true
  std::vector<Tensor> levels;
};

/// Adds micro-batch number `phase` of its group, counted from 0, to sums of 1, 2, 4, ... micro-batches, like
/// a binary counter: levels[l * gradients + i] holds the sum of 2^l gradients i if bit l of `phase` is set,
/// and isn't read otherwise. If `due` is true, this micro-batch is the last of its group, and the totals are
/// the sum over the whole group: ((g0 + g1) + (g2 + g3)) + ..., where a missing micro-batch adds nothing. A
/// group has at most 2^levels micro-batches. phase: i64 (), due: bool (); gradients: f32 or f64, of any
/// shapes; a level has the shapes of the gradients. The results may be written over gradients and levels. Not
/// differentiable. Throws kInvalidArgument if there is no gradient or the levels are missing or incomplete,
/// kShapeMismatch, kDtypeMismatch.
TreeSums tree_accumulate(const Tensor& phase, const Tensor& due, std::span<const Tensor> gradients,
                         std::span<const Tensor> levels);

}  // namespace isochron
