#include "isochron/nn/layers/attention.h"

#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

/// The number of key heads. Throws unless it divides the number of query heads, which must divide the width.
int64_t checked_key_heads(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options) {
  const int64_t key_heads = options.key_value_heads == 0 ? heads : options.key_value_heads;
  require(heads >= 1 && width >= 1 && width % heads == 0, ErrorCode::kInvalidArgument, "multi_head_attention",
          "{} heads don't divide a width of {}", heads, width);
  require(key_heads >= 1 && heads % key_heads == 0, ErrorCode::kInvalidArgument, "multi_head_attention",
          "{} heads of keys don't divide {} heads of queries", key_heads, heads);
  return key_heads;
}

Dense dense(int64_t units, const MultiHeadAttentionOptions& options) {
  return Dense(units, Activation::kNone,
               {.bias = options.bias, .kernel_initializer = options.kernel_initializer});
}

/// `width`: 0 for any.
void require_sequence(const Tensor& x, int64_t width, std::string_view where) {
  require(x.rank() == 3 && (width == 0 || x.extent(2) == width), ErrorCode::kShapeMismatch, where,
          "expected (samples, length, {}), got {}", width == 0 ? "width" : std::to_string(width),
          x.spec().str());
}

/// Whether a layer's mask is for keys alone; otherwise it has an axis of queries.
bool is_key_mask(const Tensor& mask) { return !mask.defined() || mask.rank() <= 2; }

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads, MultiHeadAttentionOptions options)
    : width_(width),
      heads_(heads),
      key_heads_(checked_key_heads(width, heads, options)),
      causal_(options.causal),
      query_key_value_(dense(width / heads * (heads + 2 * key_heads_), options)),
      output_(dense(width, options)) {}

Tensor MultiHeadAttention::forward(const Tensor& x, const Tensor& mask) {
  return is_key_mask(mask) ? forward(x, mask, Tensor()) : forward(x, Tensor(), mask);
}

Tensor MultiHeadAttention::forward(const Tensor& x, const Tensor& key_mask, const Tensor& mask) {
  require_sequence(x, width_, kind());
  const Tensor qkv =
      reshape(query_key_value_(x), {x.extent(0), x.extent(1), heads_ + 2 * key_heads_, width_ / heads_});
  const Tensor heads =
      packed_attention(qkv, heads_, key_heads_, {.causal = causal_, .key_mask = key_mask, .mask = mask});
  return output_(reshape(heads, {x.extent(0), x.extent(1), width_}));
}

CrossAttention::CrossAttention(int64_t width, int64_t heads, MultiHeadAttentionOptions options)
    : width_(width),
      heads_(heads),
      key_heads_(checked_key_heads(width, heads, options)),
      causal_(options.causal),
      query_(dense(width, options)),
      key_value_(dense(2 * width / heads * key_heads_, options)),
      output_(dense(width, options)) {}

Tensor CrossAttention::forward(const Tensor& x, const Tensor& memory, const Tensor& mask) {
  return is_key_mask(mask) ? forward(x, memory, mask, Tensor()) : forward(x, memory, Tensor(), mask);
}

Tensor CrossAttention::forward(const Tensor& x, const Tensor& memory, const Tensor& key_mask,
                               const Tensor& mask) {
  require_sequence(x, width_, kind());
  require_sequence(memory, 0, kind());
  const Tensor q = reshape(query_(x), {x.extent(0), x.extent(1), heads_, width_ / heads_});
  const Tensor kv =
      reshape(key_value_(memory), {memory.extent(0), memory.extent(1), 2 * key_heads_, width_ / heads_});
  const Tensor heads = attention(q, narrow(kv, 2, 0, key_heads_), narrow(kv, 2, key_heads_, key_heads_),
                                 {.causal = causal_, .key_mask = key_mask, .mask = mask});
  return output_(reshape(heads, {x.extent(0), x.extent(1), width_}));
}

}  // namespace isochron::nn
