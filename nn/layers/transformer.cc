#include "isochron/nn/layers/transformer.h"

#include <cmath>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

/// x + part(x), with the norm before `part` or after the sum.
template <class Part>
Tensor residual(const Tensor& x, LayerNorm& norm, bool norm_first, Part part) {
  return norm_first ? x + part(norm(x)) : norm(x + part(x));
}

MultiHeadAttentionOptions attention_options(bool causal) { return {.causal = causal}; }

/// Rotates (a, b) by the angle of (cosine, sine).
std::pair<Tensor, Tensor> turned(const Tensor& a, const Tensor& b, const Tensor& cosine, const Tensor& sine) {
  return {a * cosine - b * sine, a * sine + b * cosine};
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t width, int64_t heads, int64_t hidden,
                                                 TransformerOptions options)
    : norm_first_(options.norm_first),
      attention_(width, heads, attention_options(options.causal)),
      in_(hidden, options.activation),
      out_(width),
      attention_norm_({.epsilon = options.epsilon}),
      dense_norm_({.epsilon = options.epsilon}),
      dropout_(options.dropout) {}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const Tensor& mask) {
  const Tensor y = residual(x, attention_norm_, norm_first_,
                            [&](const Tensor& in) { return dropout_(attention_(in, mask)); });
  return residual(y, dense_norm_, norm_first_,
                  [&](const Tensor& in) { return dropout_(out_(dropout_(in_(in)))); });
}

void TransformerEncoderLayer::members(Members& list) {
  list("self_attn", attention_)("linear1", in_)("linear2", out_)("norm1", attention_norm_)("norm2",
                                                                                           dense_norm_);
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t width, int64_t heads, int64_t hidden,
                                                 TransformerOptions options)
    : norm_first_(options.norm_first),
      attention_(width, heads, attention_options(true)),
      cross_attention_(width, heads),
      in_(hidden, options.activation),
      out_(width),
      attention_norm_({.epsilon = options.epsilon}),
      cross_norm_({.epsilon = options.epsilon}),
      dense_norm_({.epsilon = options.epsilon}),
      dropout_(options.dropout) {}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory, const Tensor& memory_mask,
                                        const Tensor& mask) {
  Tensor y = residual(x, attention_norm_, norm_first_,
                      [&](const Tensor& in) { return dropout_(attention_(in, mask)); });
  y = residual(y, cross_norm_, norm_first_,
               [&](const Tensor& in) { return dropout_(cross_attention_(in, memory, memory_mask)); });
  return residual(y, dense_norm_, norm_first_,
                  [&](const Tensor& in) { return dropout_(out_(dropout_(in_(in)))); });
}

void TransformerDecoderLayer::members(Members& list) {
  list("self_attn", attention_)("multihead_attn", cross_attention_)("linear1", in_)("linear2", out_)(
      "norm1", attention_norm_)("norm2", cross_norm_)("norm3", dense_norm_);
}

Tensor sinusoidal_positions(int64_t count, int64_t width, DType dtype) {
  require(count >= 0 && width >= 2 && width % 2 == 0, ErrorCode::kInvalidArgument, "sinusoidal_positions",
          "the count must be >= 0, the width even and positive, got {} and {}", count, width);
  std::vector<double> values;
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t i = 0; i < width; i += 2) {
      const double angle =
          static_cast<double>(p) / std::pow(10000.0, static_cast<double>(i) / static_cast<double>(width));
      values.insert(values.end(), {std::sin(angle), std::cos(angle)});
    }
  }
  return constant(from_vector({count, width}, values, dtype));
}

Tensor rotary_embedding(const Tensor& x, const Tensor& positions, RotaryOptions options) {
  const ErrorScope scope("rotary_embedding");
  require(x.defined() && is_floating(x.dtype()), ErrorCode::kDtypeMismatch, "rotary_embedding",
          "x must be floating");
  require(x.rank() == 4 && x.extent(3) % 2 == 0, ErrorCode::kShapeMismatch, "rotary_embedding",
          "expected (N, T, heads, D) with an even D, got {}", x.spec().str());
  const int64_t steps = x.extent(1), pairs = x.extent(3) / 2;
  const DType wide = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Tensor at = positions.defined() ? positions : arange(steps);
  const bool fits =
      (at.rank() == 1 || (at.rank() == 2 && at.extent(0) == x.extent(0))) && at.extent(-1) == steps;
  require(fits, ErrorCode::kShapeMismatch, "rotary_embedding",
          "expected one position for each of the {} steps of {}, got {}", steps, x.spec().str(),
          at.spec().str());
  std::vector<double> frequencies;
  for (int64_t i = 0; i < pairs; ++i) {
    frequencies.push_back(std::pow(options.base, -static_cast<double>(i) / static_cast<double>(pairs)));
  }
  const Tensor frequency = constant(from_vector({pairs}, frequencies, wide));
  const Tensor angle = reshape(cast(at, wide), {at.rank() == 2 ? at.extent(0) : 1, steps, 1, 1}) * frequency;
  const Tensor input = cast(x, wide);
  Tensor y;
  if (options.interleaved) {
    const Tensor split_pairs = reshape(input, {x.extent(0), steps, x.extent(2), pairs, 2});
    const auto [a, b] = turned(select(split_pairs, 0, 4), select(split_pairs, 1, 4), cos(angle), sin(angle));
    y = reshape(stack({a, b}, 4), x.shape());
  } else {
    const std::vector<Tensor> halves = split(input, 2, 3);
    const auto [a, b] = turned(halves[0], halves[1], cos(angle), sin(angle));
    y = concatenate({a, b}, 3);
  }
  return cast(y, x.dtype());
}

}  // namespace isochron::nn
