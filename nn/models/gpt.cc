#include "isochron/nn/models/gpt.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isochron/core/base/rng.h"
#include "isochron/core/base/seed.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

constexpr double kStddev = 0.02;  // of initial weights

DenseOptions dense_options(const GptOptions& options, double stddev = kStddev) {
  return {.bias = options.bias, .kernel_initializer = init::normal(0, stddev)};
}

const GptOptions& checked(const GptOptions& o) {
  require(o.vocabulary >= 1 && o.context >= 1 && o.layers >= 1, ErrorCode::kInvalidArgument, "gpt",
          "vocabulary, context and layers must be >= 1, got {}, {} and {}", o.vocabulary, o.context,
          o.layers);
  return o;
}

/// One token drawn from softmax(logits / temperature), or the likeliest.
int64_t draw(std::span<const float> logits, const GenerateOptions& options, Rng& rng) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  require(std::none_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }),
          ErrorCode::kNotANumber, "generate", "the model computes NaN; are its weights finite?");
  const auto logit = [&](int64_t token) { return static_cast<double>(logits[static_cast<size_t>(token)]); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return logit(a) > logit(b); });
  if (options.temperature == 0) return order[0];
  require(std::isfinite(logit(order[0])), ErrorCode::kNotANumber, "generate",
          "the largest score is {}, so probabilities can't be computed; are the weights finite?",
          logit(order[0]));
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  std::vector<double> sums;
  double total = 0;
  for (const int64_t token : order) {
    total += std::exp((logit(token) - logit(order[0])) / options.temperature);
    sums.push_back(total);
  }
  const auto found = std::upper_bound(sums.begin(), sums.end(), rng.uniform() * total);
  return order[std::min(static_cast<size_t>(found - sums.begin()), order.size() - 1)];
}

}  // namespace

GptBlock::GptBlock(const GptOptions& options)
    : attention_norm_({.center = options.bias}),
      attention_(options.width, options.heads,
                 {.causal = true, .bias = options.bias, .kernel_initializer = init::normal(0, kStddev)}),
      dense_norm_({.center = options.bias}),
      in_(4 * options.width, Activation::kGelu, dense_options(options)),
      // Each layer adds twice to the stream; scaled so that its variance doesn't grow with the depth.
      out_(options.width, Activation::kNone,
           dense_options(options, kStddev / std::sqrt(2.0 * static_cast<double>(options.layers)))),
      dropout_(options.dropout) {}

Tensor GptBlock::forward(const Tensor& x) {
  const Tensor y = x + dropout_(attention_(attention_norm_(x)));
  return y + dropout_(out_(in_(dense_norm_(y))));
}

void GptBlock::members(Members& list) {
  list("attention_norm", attention_norm_)("attention", attention_)("dense_norm", dense_norm_)("in", in_)(
      "out", out_);
}

Gpt::Gpt(const GptOptions& options)
    : options_(checked(options)),
      tokens_(options.vocabulary, options.width,
              {.initializer = init::normal(0, kStddev), .dtype = options.dtype}),
      dropout_(options.dropout),
      norm_({.center = options.bias}) {
  for (int64_t i = 0; i < options.layers; ++i) blocks_.push_back(std::make_unique<GptBlock>(options));
}

Tensor Gpt::forward(const Tensor& tokens) {
  require(tokens.rank() == 2 && tokens.extent(1) >= 1 && tokens.extent(1) <= options_.context,
          ErrorCode::kShapeMismatch, kind(), "expected (samples, up to {} tokens), got {}", options_.context,
          tokens.spec().str());
  if (!positions_.defined()) {
    positions_ = make_parameter("positions", {options_.dtype, {options_.context, options_.width}},
                                init::normal(0, kStddev));
  }
  Tensor x = dropout_(tokens_(tokens) + narrow(positions_, 0, 0, tokens.extent(1)));
  for (const auto& block : blocks_) x = (*block)(x);
  return tokens_.scores(norm_(x));
}

void Gpt::members(Members& list) {
  list("tokens", tokens_)("positions", positions_);
  for (size_t i = 0; i < blocks_.size(); ++i) list(fmt::format("block_{}", i), *blocks_[i]);
  list("norm", norm_);
}

std::vector<int64_t> generate(Gpt& model, std::span<const int64_t> prompt, const GenerateOptions& options) {
  const GptOptions& sizes = model.options();
  require(!prompt.empty() && options.count >= 0 && options.temperature >= 0 &&
              std::isfinite(options.temperature) && options.top_k >= 0,
          ErrorCode::kInvalidArgument, "generate",
          "needs a prompt, a finite temperature >= 0, and count and top_k >= 0");
  for (const int64_t token : prompt) {
    require(token >= 0 && token < sizes.vocabulary, ErrorCode::kOutOfRange, "generate",
            "token {} is outside the vocabulary of {}", token, sizes.vocabulary);
  }
  const TrainingScope inference(false);
  CaptureOptions capturing{.name = "generate"};
  const std::vector<Variable> parameters = model.parameters();
  if (!parameters.empty()) capturing.plan.device = parameters.front().device();
  auto score =
      capture([&model](const Tensor& tokens) { return cast(model(tokens), DType::kF32); }, capturing);
  std::vector<int64_t> text(prompt.begin(), prompt.end());
  Tensor window = empty({DType::kI64, {1, sizes.context}});
  Rng rng(options.seed ? *options.seed : default_seed("generate"));
  for (int64_t i = 0; i < options.count; ++i) {
    // Padding comes after the text, where a causal model doesn't see it.
    const size_t seen = std::min(text.size(), static_cast<size_t>(sizes.context));
    const std::span<int64_t> tokens = window.span<int64_t>();
    std::fill(std::copy(text.end() - static_cast<std::ptrdiff_t>(seen), text.end(), tokens.begin()),
              tokens.end(), 0);
    const Tensor logits = to_device(score(window), {});
    text.push_back(draw(logits.span<float>().subspan((seen - 1) * static_cast<size_t>(sizes.vocabulary),
                                                     static_cast<size_t>(sizes.vocabulary)),
                        options, rng));
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace isochron::nn
