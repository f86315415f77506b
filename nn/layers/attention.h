// Layers of transformers: multi-head attention, with the embeddings of nn/layers/embedding.h.
#pragma once

#include "isochron/nn/layers/embedding.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/ops/attention/attention.h"

namespace isochron::nn {

struct MultiHeadAttentionOptions {
  /// Each query sees only its own position and those before it.
  bool causal = false;
  /// The number of key and value heads, which must divide the number of query heads; 0: the same number.
  int64_t key_value_heads = 0;
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
};
/// Self-attention (Vaswani et al.: "Attention Is All You Need", NeurIPS 2017). One dense layer computes
/// queries, keys and values; another combines the heads' results. x: (N, T, width); the result has the same
/// shape. A call throws kShapeMismatch for another rank or width.
class MultiHeadAttention : public Module {
 public:
  /// Throws kInvalidArgument unless heads divide width and key_value_heads divide heads.
  MultiHeadAttention(int64_t width, int64_t heads, MultiHeadAttentionOptions options = {});
  Tensor forward(const Tensor& x) override { return forward(x, Tensor()); }
  /// `mask`: either (N, T) bool, false at padding positions, which no query attends to; or a mask with three
  /// or four axes like AttentionOptions::mask, such as (1, T, T). May be undefined.
  Tensor forward(const Tensor& x, const Tensor& mask) override;
  /// With a key mask and a mask of three or four axes; each may be undefined.
  Tensor forward(const Tensor& x, const Tensor& key_mask, const Tensor& mask) override;
  /// The same as the call with two inputs.
  Tensor attend(const Tensor& x, const Tensor& mask) { return (*this)(x, mask); }
  void members(Members& list) override { list("query_key_value", query_key_value_)("output", output_); }
  std::string_view kind() const override { return "multi_head_attention"; }
  /// The widths of the projections: of all query heads together, of all key (or value) heads together, and of
  /// one head.
  int64_t query_width() const { return width_; }
  int64_t key_width() const { return width_ / heads_ * key_heads_; }
  int64_t head_width() const { return width_ / heads_; }

 private:
  int64_t width_, heads_, key_heads_;
  bool causal_;
  Dense query_key_value_, output_;
};

/// Attention from one sequence to another, as from a decoder to its encoder. x: (N, T, width), memory: (N, S,
/// any width); result (N, T, width).
class CrossAttention : public Module {
 public:
  /// Throws like MultiHeadAttention.
  CrossAttention(int64_t width, int64_t heads, MultiHeadAttentionOptions options = {});
  /// Attends from x to x itself.
  Tensor forward(const Tensor& x) override { return forward(x, x, Tensor()); }
  Tensor forward(const Tensor& x, const Tensor& memory) override { return forward(x, memory, Tensor()); }
  /// `mask`: either (N, S) bool, false at padding positions of the memory; or a mask with three or four axes
  /// like AttentionOptions::mask. May be undefined.
  Tensor forward(const Tensor& x, const Tensor& memory, const Tensor& mask) override;
  /// With a key mask and a mask of three or four axes; each may be undefined.
  Tensor forward(const Tensor& x, const Tensor& memory, const Tensor& key_mask, const Tensor& mask) override;
  /// The same as the call with three inputs.
  Tensor attend(const Tensor& x, const Tensor& memory, const Tensor& mask) {
    return (*this)(x, memory, mask);
  }
  void members(Members& list) override { list("query", query_)("key_value", key_value_)("output", output_); }
  std::string_view kind() const override { return "cross_attention"; }
  /// The widths of the projections: of all query heads together, of all key (or value) heads together, and of
  /// one head.
  int64_t query_width() const { return width_; }
  int64_t key_width() const { return width_ / heads_ * key_heads_; }
  int64_t head_width() const { return width_ / heads_; }

 private:
  int64_t width_, heads_, key_heads_;
  bool causal_;
  Dense query_, key_value_, output_;
};

}  // namespace isochron::nn
