#include "isochron/nn/layers/embedding.h"

#include <algorithm>

#include "isochron/ops/matmul/matmul.h"

namespace isochron::nn {
namespace {

template <typename Options>
void check_table(std::string_view where, int64_t count, int64_t width, const Options& options) {
  require(count >= 1 && width >= 1, ErrorCode::kInvalidArgument, where,
          "count and width must be >= 1, got {} and {}", count, width);
  require(is_floating(options.dtype), ErrorCode::kInvalidArgument, where,
          "the table must be floating, got {}", dtype_name(options.dtype));
  if (!options.padding_idx) return;
  require(*options.padding_idx >= -count && *options.padding_idx < count, ErrorCode::kOutOfRange, where,
          "padding_idx {} is not one of the {} rows", *options.padding_idx, count);
}

/// The initializer that `options` give, with zeros in the padding row.
template <typename Options>
Initializer initializer_of(const Options& options) {
  if (!options.padding_idx) return options.initializer;
  return Initializer::in_pieces([inner = options.initializer, padding = *options.padding_idx](
                                    const Shape& shape, Rng& rng) -> Initializer::Draw {
    const int64_t row = padding < 0 ? padding + shape[0] : padding;
    const int64_t first = row * shape[1], end = first + shape[1];
    return [draw = inner.begin(shape, rng), first, end, at = int64_t{0}](std::span<double> next) mutable {
      draw(next);
      const int64_t count = static_cast<int64_t>(next.size());
      const int64_t from = std::clamp(first - at, int64_t{0}, count),
                    to = std::clamp(end - at, int64_t{0}, count);
      std::fill(next.begin() + from, next.begin() + to, 0.0);
      at += count;
    };
  });
}

}  // namespace

Embedding::Embedding(int64_t count, int64_t width, EmbeddingOptions options)
    : count_(count), width_(width), options_(std::move(options)) {
  check_table("embedding", count, width, options_);
}

void Embedding::build_table() {
  if (!table_.defined())
    table_ = make_parameter("embeddings", {options_.dtype, {count_, width_}}, initializer_of(options_));
}

Tensor Embedding::forward(const Tensor& x) {
  build_table();
  return embedding(table_, x, {.padding_idx = options_.padding_idx, .sparse = options_.sparse});
}

Tensor Embedding::scores(const Tensor& x) {
  const Scope scope = enter();
  build_table();
  return matmul(x, table_, false, true);
}

EmbeddingBag::EmbeddingBag(int64_t count, int64_t width, EmbeddingBagOptions options)
    : count_(count), width_(width), options_(std::move(options)) {
  check_table("embedding_bag", count, width, options_);
  require(!options_.sparse || options_.mode != BagMode::kMax, ErrorCode::kInvalidArgument, "embedding_bag",
          "the gradient of BagMode::kMax is dense; leave `sparse` out");
}

void EmbeddingBag::build_table() {
  if (!table_.defined())
    table_ = make_parameter("embeddings", {options_.dtype, {count_, width_}}, initializer_of(options_));
}

BagOptions EmbeddingBag::bag_options() const {
  return {.mode = options_.mode,
          .padding_idx = options_.padding_idx,
          .sparse = options_.sparse,
          .include_last_offset = options_.include_last_offset};
}

Tensor EmbeddingBag::forward(const Tensor& x) { return forward(x, {}, {}); }

Tensor EmbeddingBag::forward(const Tensor& x, const Tensor& offsets) { return forward(x, offsets, {}); }

Tensor EmbeddingBag::forward(const Tensor& x, const Tensor& offsets, const Tensor& weights) {
  build_table();
  if (!offsets.defined()) return embedding_bag(table_, x, bag_options(), weights);
  return embedding_bag(table_, x, offsets, bag_options(), weights);
}

}  // namespace isochron::nn
