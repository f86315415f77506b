// Blocks of transformers (Vaswani et al.: "Attention Is All You Need", NeurIPS 2017), and encodings of
// positions.
#pragma once

#include "isochron/nn/layers/attention.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"

namespace isochron::nn {

struct TransformerOptions {
  double dropout = 0.1;  // after attention, activation and the last product; not on attention weights
  Activation activation = Activation::kRelu;
  bool norm_first = false;  // normalize the input of each part (Xiong et al. 2020), not the sum after it
  bool causal = false;      // each position sees those up to its own; a decoder layer is always causal
  double epsilon = 1e-5;    // of the norms
};

/// Self-attention and two dense layers, each with a residual connection and a layer norm, like PyTorch's
/// TransformerEncoderLayer and with the same names of members. x: (N, T, width); the result has the same
/// shape. A call throws like MultiHeadAttention.
class TransformerEncoderLayer : public Module {
 public:
  /// `hidden`: units of the first dense layer. Throws like MultiHeadAttention, Dense and Dropout.
  TransformerEncoderLayer(int64_t width, int64_t heads, int64_t hidden, TransformerOptions options = {});
  Tensor forward(const Tensor& x) override { return forward(x, Tensor()); }
  /// `mask`: as in MultiHeadAttention; may be undefined.
  Tensor forward(const Tensor& x, const Tensor& mask) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "transformer_encoder_layer"; }

 private:
  bool norm_first_;
  MultiHeadAttention attention_;
  Dense in_, out_;
  LayerNorm attention_norm_, dense_norm_;
  Dropout dropout_;
};

/// Causal self-attention, attention to a memory and two dense layers, like PyTorch's TransformerDecoderLayer
/// under a causal mask. x: (N, T, width), memory: (N, S, any width); result (N, T, width).
class TransformerDecoderLayer : public Module {
 public:
  /// Throws like TransformerEncoderLayer.
  TransformerDecoderLayer(int64_t width, int64_t heads, int64_t hidden, TransformerOptions options = {});
  Tensor forward(const Tensor& x, const Tensor& memory) override { return forward(x, memory, Tensor()); }
  /// `memory_mask`: the mask of the memory, as in CrossAttention; may be undefined.
  Tensor forward(const Tensor& x, const Tensor& memory, const Tensor& memory_mask) override {
    return forward(x, memory, memory_mask, Tensor());
  }
  /// `mask`: the mask of x, as in MultiHeadAttention; may be undefined.
  Tensor forward(const Tensor& x, const Tensor& memory, const Tensor& memory_mask,
                 const Tensor& mask) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "transformer_decoder_layer"; }

 private:
  bool norm_first_;
  MultiHeadAttention attention_;
  CrossAttention cross_attention_;
  Dense in_, out_;
  LayerNorm attention_norm_, cross_norm_, dense_norm_;
  Dropout dropout_;
};

/// Encodings of the positions 0 to count - 1, a constant (count, width) to be added to (N, count, width):
/// element 2i of position p is sin(p / 10000^(2i / width)), element 2i + 1 the cosine. Throws
/// kInvalidArgument unless count >= 0 and width is even and positive, kDtypeMismatch.
Tensor sinusoidal_positions(int64_t count, int64_t width, DType dtype = DType::kF32);

struct RotaryOptions {
  double base = 10000;
  /// Pairs are neighbors (2i, 2i + 1), as in the paper, instead of (i, i + D / 2), as in Llama and GPT-NeoX.
  bool interleaved = false;
};
/// Rotary positions (Su et al.: "RoFormer", 2021): rotates pair i of the elements of x at position p by the
/// angle p / base^(2i / D). x: queries or keys (N, T, heads, D), D even. `positions`: (T) or (N, T), i32 or
/// i64; undefined: 0 to T - 1. The result has x's shape and dtype; angles are computed in f32, or in f64 if x
/// is f64. Throws kShapeMismatch, kDtypeMismatch.
Tensor rotary_embedding(const Tensor& x, const Tensor& positions = {}, RotaryOptions options = {});

}  // namespace isochron::nn
