#include "isochron/nn/weight_rules.h"

#include "isochron/ops/creation.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/shape_ops.h"
#include "isochron/ops/slicing.h"

namespace isochron::nn {
namespace {

Dims inverse(const Dims& permutation) {
  Dims result = permutation;
  for (int i = 0; i < permutation.rank(); ++i) result[static_cast<int>(permutation[i])] = i;
  return result;
}

/// The equal blocks of the last axis in another order: block i of the result is block order[i] of x.
Tensor reorder_blocks(const Tensor& x, const Dims& order) {
  const std::vector<Tensor> blocks = split(x, order.rank(), -1);
  std::vector<Tensor> reordered;
  for (const int64_t block : order) reordered.push_back(blocks[static_cast<size_t>(block)]);
  return concatenate(reordered, -1);
}

/// A recurrent kernel: ours (in, gates * units), theirs (gates * units, in) with the gates in `order`.
WeightRule gates(std::string kind, std::string member, std::string theirs, const Dims& order) {
  return {std::move(kind),
          std::move(member),
          {std::move(theirs)},
          [order](const Tensor& ours) { return std::vector{transpose(reorder_blocks(ours, order))}; },
          [back = inverse(order)](const std::vector<Tensor>& parts) {
            return reorder_blocks(transpose(parts[0]), back);
          }};
}

/// Ours is one bias, theirs one beside each kernel, which are added: saved as ours and zeros.
WeightRule summed_biases(std::string kind) {
  return {std::move(kind),
          "bias",
          {"bias_ih_l0", "bias_hh_l0"},
          [](const Tensor& ours) {
            return std::vector{ours, zeros_like(ours)};
          },
          [](const std::vector<Tensor>& parts) { return parts[0] + parts[1]; }};
}

/// Ours (2, gates * units), theirs a bias of each row, with the gates in `order`.
WeightRule stacked_biases(std::string kind, const Dims& order) {
  return {std::move(kind),
          "bias",
          {"bias_ih_l0", "bias_hh_l0"},
          [order](const Tensor& ours) {
            const std::vector<Tensor> rows = split(reorder_blocks(ours, order), 2, 0);
            return std::vector{squeeze(rows[0], {0}), squeeze(rows[1], {0})};
          },
          [back = inverse(order)](const std::vector<Tensor>& parts) {
            return reorder_blocks(stack(parts, 0), back);
          }};
}

std::vector<WeightRule> pytorch_rules() {
  const Dims lstm = {0, 1, 2, 3};  // input, forget, cell, output in both
  const Dims gru = {1, 0, 2};      // ours update, reset, new; theirs reset, update, new
  return {
      permuted("dense", "kernel", "weight", {1, 0}),
      permuted("conv1d", "kernel", "weight", {2, 1, 0}),
      permuted("conv2d", "kernel", "weight", {3, 2, 0, 1}),
      permuted("conv3d", "kernel", "weight", {4, 3, 0, 1, 2}),
      renamed("embedding", "embeddings", "weight"),
      renamed("batch_norm", "gamma", "weight"),
      renamed("batch_norm", "beta", "bias"),
      renamed("batch_norm", "moving_mean", "running_mean"),
      renamed("batch_norm", "moving_variance", "running_var"),
      read_over("batch_norm", "num_batches_tracked"),
      renamed("layer_norm", "gamma", "weight"),
      renamed("layer_norm", "beta", "bias"),
      gates("lstm", "kernel", "weight_ih_l0", lstm),
      gates("lstm", "recurrent_kernel", "weight_hh_l0", lstm),
      summed_biases("lstm"),
      gates("gru", "kernel", "weight_ih_l0", gru),
      gates("gru", "recurrent_kernel", "weight_hh_l0", gru),
      stacked_biases("gru", gru),
  };
}

}  // namespace

WeightRule renamed(std::string kind, std::string member, std::string theirs) {
  return {std::move(kind),
          std::move(member),
          {std::move(theirs)},
          [](const Tensor& ours) { return std::vector{ours}; },
          [](const std::vector<Tensor>& parts) { return parts[0]; }};
}

WeightRule permuted(std::string kind, std::string member, std::string theirs, const Dims& permutation) {
  return {
      std::move(kind),
      std::move(member),
      {std::move(theirs)},
      [permutation](const Tensor& ours) { return std::vector{transpose(ours, permutation)}; },
      [back = inverse(permutation)](const std::vector<Tensor>& parts) { return transpose(parts[0], back); }};
}

WeightRule read_over(std::string kind, std::string theirs) {
  return {std::move(kind), "", {std::move(theirs)}, {}, {}};
}

std::span<const WeightRule> weight_rules(Convention convention) {
  static const std::vector<WeightRule> pytorch = pytorch_rules();
  return convention == Convention::kPyTorch ? std::span<const WeightRule>(pytorch)
                                            : std::span<const WeightRule>();
}

}  // namespace isochron::nn
