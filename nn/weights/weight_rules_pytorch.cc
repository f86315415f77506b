#include "isochron/nn/layers/attention.h"
#include "isochron/nn/weights/weight_tables.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn::weight_tables {
namespace {

/// The equal blocks of the last axis in another order: block i of the result is block order[i] of x.
Tensor reorder_blocks(const Tensor& x, const Dims& order) {
  const Tensors blocks = split(x, order.rank(), -1);
  Tensors reordered;
  for (const int64_t block : order) reordered.push_back(blocks[static_cast<size_t>(block)]);
  return concatenate(reordered, -1);
}

/// A recurrent kernel: ours (in, gates * units), theirs (gates * units, in) with the gates in `order`.
WeightRule gates(std::string kind, std::string ours, std::string theirs, const Dims& order) {
  return one_to_one(
      std::move(kind), std::move(ours), std::move(theirs),
      [order](const Tensor& x) { return transpose(reorder_blocks(x, order)); },
      [back = inverse(order)](const Tensor& x) { return reorder_blocks(transpose(x), back); });
}

/// Ours is one bias. Theirs is one bias for each kernel, and the two are added. Saved as ours and zeros.
WeightRule summed_biases(std::string kind, std::string ours, std::vector<std::string> theirs) {
  return {std::move(kind),
          {std::move(ours)},
          std::move(theirs),
          [](const Module&, const Tensors& bias) -> Tensors {
            return {bias[0], zeros_like(bias[0])};
          },
          [](const Module&, const Tensors& parts) -> Tensors { return {parts[0] + parts[1]}; }};
}

/// Ours: (2, gates * units). Theirs: one bias for each row of ours, with the gates in `order`.
WeightRule stacked_biases(std::string kind, std::string ours, std::vector<std::string> theirs,
                          const Dims& order) {
  return {std::move(kind),
          {std::move(ours)},
          std::move(theirs),
          [order](const Module&, const Tensors& bias) -> Tensors {
            const Tensors rows = split(reorder_blocks(bias[0], order), 2, 0);
            return {squeeze(rows[0], {0}), squeeze(rows[1], {0})};
          },
          [back = inverse(order)](const Module&, const Tensors& parts) -> Tensors {
            return {reorder_blocks(stack(parts, 0), back)};
          }};
}

/// Adds the rules for one layer in one direction. `prefix` is part of our names, `suffix` of theirs.
void add_recurrent_rules(Rules& rules, const std::string& kind, const std::string& prefix,
                         const std::string& suffix) {
  const bool lstm = kind.starts_with("lstm");
  // An LSTM has input, forget, cell, output in both; a GRU here update, reset, new; there reset, update, new.
  const Dims order = lstm ? Dims{0, 1, 2, 3} : Dims{1, 0, 2};
  const std::vector<std::string> biases = {"bias_ih" + suffix, "bias_hh" + suffix};
  rules.push_back(gates(kind, prefix + "kernel", "weight_ih" + suffix, order));
  rules.push_back(gates(kind, prefix + "recurrent_kernel", "weight_hh" + suffix, order));
  rules.push_back(lstm ? summed_biases(kind, prefix + "bias", biases)
                       : stacked_biases(kind, prefix + "bias", biases, order));
}

/// Queries, keys and values in one projection there: kernels are transposed, biases not.
WeightRule packed_projection(const std::string& member, std::string theirs) {
  const bool kernel = member == "kernel";
  const auto turned = [kernel](const Tensor& x) { return kernel ? transpose(x) : x; };
  return {"cross_attention",
          {"query/" + member, "key_value/" + member},
          {std::move(theirs)},
          [turned](const Module&, const Tensors& ours) -> Tensors { return {turned(concatenate(ours, -1))}; },
          [turned](const Module& layer, const Tensors& parts) {
            const auto& attention = layer_as<CrossAttention>(layer);
            const int64_t widths[] = {attention.query_width(), 2 * attention.key_width()};
            return cut(turned(parts[0]), widths);
          },
          [kernel](const Tensors& ours) {  // false: the memory has another width
            return !kernel || ours[0].extent(0) == ours[1].extent(0);
          }};
}

void add_attention_rules(Rules& rules) {
  for (const char* kind : {"multi_head_attention", "cross_attention"}) {
    rules.push_back(permuted(kind, "output/kernel", "out_proj.weight", {1, 0}));
    rules.push_back(renamed(kind, "output/bias", "out_proj.bias"));
  }
  rules.push_back(permuted("multi_head_attention", "query_key_value/kernel", "in_proj_weight", {1, 0}));
  rules.push_back(renamed("multi_head_attention", "query_key_value/bias", "in_proj_bias"));
  rules.push_back(packed_projection("kernel", "in_proj_weight"));
  rules.push_back(packed_projection("bias", "in_proj_bias"));
  rules.push_back(permuted("cross_attention", "query/kernel", "q_proj_weight", {1, 0}));
  rules.push_back(
      {"cross_attention",
       {"key_value/kernel"},
       {"k_proj_weight", "v_proj_weight"},
       [](const Module&, const Tensors& ours) { return split(transpose(ours[0]), 2, 0); },
       [](const Module&, const Tensors& parts) -> Tensors { return {transpose(concatenate(parts, 0))}; }});
}

}  // namespace

Rules pytorch_rules() {
  Rules rules = {
      permuted("dense", "kernel", "weight", {1, 0}),
      renamed("embedding", "embeddings", "weight"),
      renamed("embedding_bag", "embeddings", "weight"),
      renamed("rms_norm", "gamma", "weight"),
      renamed("prelu", "slope", "weight"),
      renamed("batch_norm", "moving_mean", "running_mean"),
      renamed("batch_norm", "moving_variance", "running_var"),
      read_over("batch_norm", "num_batches_tracked"),
  };
  for (const char* kind : {"batch_norm", "layer_norm", "group_norm", "instance_norm"}) {
    rules.push_back(renamed(kind, "gamma", "weight"));
    rules.push_back(renamed(kind, "beta", "bias"));
  }
  // The channels go first: (out, in / groups, window...), transposed (in, out / groups, window...).
  for (const char* kind : {"conv{}d", "depthwise_conv{}d", "conv{}d_transpose"}) {
    rules.push_back(permuted(fmt::format(fmt::runtime(kind), 1), "kernel", "weight", {2, 1, 0}));
    rules.push_back(permuted(fmt::format(fmt::runtime(kind), 2), "kernel", "weight", {3, 2, 0, 1}));
    rules.push_back(permuted(fmt::format(fmt::runtime(kind), 3), "kernel", "weight", {4, 3, 0, 1, 2}));
  }
  for (const std::string kind : {"lstm", "gru"}) {
    add_recurrent_rules(rules, kind, "", "_l0");
    add_recurrent_rules(rules, kind, "layer_#/", "_l#");
    add_recurrent_rules(rules, kind, "layer_#/forward/", "_l#");
    add_recurrent_rules(rules, kind, "layer_#/backward/", "_l#_reverse");
    add_recurrent_rules(rules, kind + "_cell", "", "");
  }
  add_attention_rules(rules);
  return rules;
}

}  // namespace isochron::nn::weight_tables
