// A decoder-only transformer (Radford et al.: "Language Models are Unsupervised Multitask Learners", 2019):
// tokens in, scores of the next token out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "isochron/nn/layers/attention.h"
#include "isochron/nn/layers/normalization.h"

namespace isochron::nn {

struct GptOptions {
  int64_t vocabulary = 256;
  int64_t context = 64;  // the longest sequence
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  double dropout = 0;
  bool bias = false;          // of dense layers and norms
  DType dtype = DType::kF32;  // of the parameters and the logits
};

/// x + attention(norm(x)), then x + out(gelu(in(norm(x)))).
class GptBlock : public Module {
 public:
  explicit GptBlock(const GptOptions& options);
  Tensor forward(const Tensor& x) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "gpt_block"; }

 private:
  LayerNorm attention_norm_;
  MultiHeadAttention attention_;
  LayerNorm dense_norm_;
  Dense in_, out_;
  Dropout dropout_;
};

/// x: integers (N, T), T at most the context; result (N, T, vocabulary), logits. Input and output share one
/// table.
class Gpt : public Module {
 public:
  /// Throws kInvalidArgument unless all sizes are >= 1 and heads divide width.
  explicit Gpt(const GptOptions& options);
  /// Throws kShapeMismatch for a sequence longer than the context.
  Tensor forward(const Tensor& tokens) override;
  void members(Members& list) override;
  std::string_view kind() const override { return "gpt"; }
  const GptOptions& options() const { return options_; }

 private:
  GptOptions options_;
  Embedding tokens_;
  Variable positions_;
  Dropout dropout_;
  std::vector<std::unique_ptr<GptBlock>> blocks_;
  LayerNorm norm_;
};

struct GenerateOptions {
  int64_t count = 100;
  /// Logits are divided by the temperature. Below 1, likely tokens become even more likely; 0 always takes
  /// the most likely token.
  double temperature = 1;
  /// Draws only from the `top_k` most likely tokens; 0: from all tokens.
  int64_t top_k = 0;
  /// If unset, derived from the process's seed (random::set_seed) at the time of the call, or 0. Equal seeds
  /// and prompts give equal tokens.
  std::optional<uint64_t> seed = {};
};
/// Continues `prompt` (not empty) by `count` tokens and returns the new tokens. The model sees the last
/// `context` tokens. One captured function computes any number of tokens, on the parameters' device. Throws
/// kInvalidArgument, kOutOfRange for tokens outside the vocabulary, kNotANumber if the model computes NaN.
std::vector<int64_t> generate(Gpt& model, std::span<const int64_t> prompt,
                              const GenerateOptions& options = {});

}  // namespace isochron::nn
