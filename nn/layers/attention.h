// Layers of transformers: multi-head attention, with the embeddings of nn/layers/embedding.h.
#pragma once

#include "isochron/nn/layers/embedding.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/ops/attention/attention.h"

namespace isochron::nn {

struct MultiHeadAttentionOptions {
  /// Each query sees only its own position and those before it.
  bool causal = false;
  /// Heads of keys and values; 0: as many as of queries. Must divide those.
  int64_t key_value_heads = 0;
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
};
/// Attention of a sequence to itself (Vaswani et al.: "Attention Is All You Need", NeurIPS 2017): one dense
/// layer makes queries, keys and values, one mixes the heads' results. x: (N, T, width).
class MultiHeadAttention : public Module {
 public:
  /// Throws kInvalidArgument unless heads divide width and key_value_heads divide heads.
  MultiHeadAttention(int64_t width, int64_t heads, MultiHeadAttentionOptions options = {});
  Tensor forward(const Tensor& x) override { return forward(x, Tensor()); }
  /// `key_mask`: (N, T) bool, false where a position is padding that nobody should see; may be undefined.
  Tensor forward(const Tensor& x, const Tensor& key_mask) override;
  /// The same as the call with two inputs.
  Tensor attend(const Tensor& x, const Tensor& key_mask) { return (*this)(x, key_mask); }
  void members(Members& list) override { list("query_key_value", query_key_value_)("output", output_); }
  std::string_view kind() const override { return "multi_head_attention"; }
  /// Of the projections: of all heads of queries, of all heads of keys (or values), and of one head.
  int64_t query_width() const { return width_; }
  int64_t key_width() const { return width_ / heads_ * key_heads_; }
  int64_t head_width() const { return width_ / heads_; }

 private:
  int64_t width_, heads_, key_heads_;
  bool causal_;
  Dense query_key_value_, output_;
};

/// Attention of a sequence to another, as a decoder's to its encoder. x: (N, T, width), memory: (N, S, any
/// width).
class CrossAttention : public Module {
 public:
  /// Throws as MultiHeadAttention.
  CrossAttention(int64_t width, int64_t heads, MultiHeadAttentionOptions options = {});
  /// To itself.
  Tensor forward(const Tensor& x) override { return forward(x, x, Tensor()); }
  Tensor forward(const Tensor& x, const Tensor& memory) override { return forward(x, memory, Tensor()); }
  /// `key_mask`: (N, S) bool, false where a position of the memory is padding; may be undefined.
  Tensor forward(const Tensor& x, const Tensor& memory, const Tensor& key_mask) override;
  /// The same as the call with three inputs.
  Tensor attend(const Tensor& x, const Tensor& memory, const Tensor& key_mask) {
    return (*this)(x, memory, key_mask);
  }
  void members(Members& list) override { list("query", query_)("key_value", key_value_)("output", output_); }
  std::string_view kind() const override { return "cross_attention"; }
  /// Of the projections: of all heads of queries, of all heads of keys (or values), and of one head.
  int64_t query_width() const { return width_; }
  int64_t key_width() const { return width_ / heads_ * key_heads_; }
  int64_t head_width() const { return width_ / heads_; }

 private:
  int64_t width_, heads_, key_heads_;
  bool causal_;
  Dense query_, key_value_, output_;
};

}  // namespace isochron::nn
