// Scaled dot-product attention with memory linear in the sequence lengths: the scores are computed one block
// at a time (Dao et al.: "FlashAttention", NeurIPS 2022; Milakov and Gimelshein: "Online normalizer
// calculation for softmax", 2018).
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

struct AttentionOptions {
  /// Query i sees keys 0 .. i + S - T: the last query sees all of them, as in decoding with a cache.
  bool causal = false;
  /// Factor of the scores: finite and > 0, or 0 for 1 / sqrt(D). Anything else throws kInvalidArgument.
  double scale = 0;
  /// (N, S) bool: false hides a key from all queries of its sample (padding). Undefined: none is hidden.
  Tensor key_mask = {};
  /// Broadcasts to (N, H, T, S). If it is bool, false hides a key from a query. If it has the dtype of q, it
  /// is added to the scaled scores, and has a gradient (for example a learned relative position bias).
  /// Combines with `causal` and `key_mask`. With this mask, the scores of all heads are kept in memory: N H T
  /// S elements, several times.
  Tensor mask = {};
};

/// softmax(scale q k^T) v for each sample and head. q: (N, T, H, D), k and v: (N, S, K, D), where K divides
/// H: each key head serves H / K query heads (Ainslie et al.: "GQA", EMNLP 2023); result (N, T, H, D). A
/// query that sees no key gives 0. f32 and f64; 16-bit floats are computed in f32. Tensors that mixed_bf16
/// stores in bf16 are multiplied in bf16 if that is faster; probabilities are then rounded to bf16 (relative
/// error 2^-9 each). Throws kShapeMismatch, kDtypeMismatch.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
/// The same for a single tensor (N, T, H + 2 K, D) that holds the heads of queries, keys and values in this
/// order (the result of one dense layer); nothing is copied. If `key_value_heads` is 0, it equals `heads`.
Tensor packed_attention(const Tensor& qkv, int64_t heads, int64_t key_value_heads = 0,
                        const AttentionOptions& options = {});

}  // namespace isochron
