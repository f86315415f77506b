// The decoder-only transformer and the text that it generates. golden_models_test.cc compares its arithmetic
// with PyTorch's.
#include "isochron/nn/models/gpt.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

using Tokens = std::vector<int64_t>;

constexpr int64_t kVocabulary = 7;
constexpr int64_t kContext = 5;

/// A model with clear choices: its weights are far larger than initial weights.
Gpt make_gpt(GptOptions options = {}) {
  options.vocabulary = kVocabulary;
  if (options.context == GptOptions().context) options.context = kContext;
  options.layers = 2;
  options.heads = 2;
  options.width = 8;
  set_initializer_seed(3);
  Gpt model(options);
  model.build({DType::kI64, {1, options.context}});
  Rng rng(11);
  for (const Variable& parameter : model.parameters()) {
    parameter.assign(
        from_vector(parameter.shape(), init::normal(0, 0.6)(parameter.shape(), rng), parameter.dtype()));
  }
  return model;
}

/// The scores of the token after `text`, computed eagerly from the last tokens of `text`.
std::vector<double> next_scores(Gpt& model, const Tokens& text) {
  const TrainingScope inference(false);
  const auto seen = std::min<int64_t>(model.options().context, static_cast<int64_t>(text.size()));
  const Tensor window = from_vector({1, seen}, {text.end() - seen, text.end()}, DType::kI64);
  return narrow(model(window), 1, seen - 1, 1).to_vector();
}

int64_t likeliest(const std::vector<double>& scores) {
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

TEST(Gpt, SeesNoTokenAfterItsOwn) {
  Gpt model = make_gpt();
  const std::vector<double> whole = model(from_vector({1, 5}, {1, 4, 2, 6, 0}, DType::kI64)).to_vector();
  const std::vector<double> other = model(from_vector({1, 5}, {1, 4, 2, 3, 3}, DType::kI64)).to_vector();
  EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + 3 * kVocabulary, other.begin()));
  EXPECT_NE(whole, other);
}

TEST(Gpt, RefusesWhatItIsNotMadeFor) {
  EXPECT_ERROR(Gpt({.context = 0}), ErrorCode::kInvalidArgument, "context");
  EXPECT_ERROR(Gpt({.heads = 3, .width = 8}), ErrorCode::kInvalidArgument, "don't divide");
  EXPECT_ERROR(Gpt({.dtype = DType::kI32}), ErrorCode::kInvalidArgument, "floating");
  Gpt model = make_gpt();
  EXPECT_ERROR(model(zeros({1, kContext + 1}, DType::kI64)), ErrorCode::kShapeMismatch, "up to 5 tokens");
  EXPECT_ERROR(model(zeros({3}, DType::kI64)), ErrorCode::kShapeMismatch, "samples");
}

TEST(Generate, TakesTheLikeliestAlsoBeyondTheContext) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Gpt model = make_gpt({.dtype = dtype});
    for (const Tokens& prompt : {Tokens{2}, Tokens{1, 5, 3, 0, 6, 6, 4, 2}}) {
      const Tokens got = generate(model, prompt, {.count = 12, .temperature = 0});
      ASSERT_EQ(got.size(), 12u);
      Tokens text = prompt;
      for (const int64_t token : got) {
        EXPECT_EQ(token, likeliest(next_scores(model, text))) << "after " << text.size();
        text.push_back(token);
      }
      EXPECT_EQ(generate(model, prompt, {.count = 12, .top_k = 1, .seed = 5}), got);
    }
  }
}

TEST(Generate, IgnoresDropoutAndLeavesTheModeAsItWas) {
  Gpt plain = make_gpt();
  Gpt dropping = make_gpt({.dropout = 0.5});
  const Tokens prompt = {1, 2};
  const GenerateOptions greedy{.count = 10, .temperature = 0};
  EXPECT_EQ(generate(dropping, prompt, greedy), generate(plain, prompt, greedy));
  EXPECT_TRUE(training());
}

TEST(Generate, DrawsByTheModelsProbabilities) {
  // With a context of one token the text is a Markov chain.
  Gpt model = make_gpt({.context = 1});
  constexpr double kTemperature = 2;
  constexpr int64_t kCount = 20000;
  const GenerateOptions options{.count = kCount, .temperature = kTemperature, .seed = 1};
  const Tokens prompt = {0};
  const Tokens text = generate(model, prompt, options);
  EXPECT_EQ(generate(model, prompt, options), text);
  EXPECT_NE(generate(model, prompt, {.count = 100, .temperature = kTemperature, .seed = 2}),
            Tokens(text.begin(), text.begin() + 100));
  std::vector<std::vector<double>> followers(kVocabulary, std::vector<double>(kVocabulary));
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    followers[static_cast<size_t>(text[i])][static_cast<size_t>(text[i + 1])] += 1;
  }
  for (int64_t token = 0; token < kVocabulary; ++token) {
    const std::vector<double>& counts = followers[static_cast<size_t>(token)];
    double total = 0;
    for (const double count : counts) total += count;
    std::vector<double> shares = next_scores(model, {token});
    double sum = 0;
    for (double& share : shares) sum += share = std::exp(share / kTemperature);
    for (size_t next = 0; next < counts.size(); ++next) {
      const double p = shares[next] / sum;
      EXPECT_NEAR(counts[next], total * p, 5 * std::sqrt(total * p * (1 - p)) + 1) << token << " to " << next;
    }
  }
}

TEST(Generate, DrawsAmongTheTopOnly) {
  Gpt model = make_gpt({.context = 1});
  const Tokens text = generate(model, Tokens{0}, {.count = 2000, .temperature = 10, .top_k = 3});
  std::vector<Tokens> followers(kVocabulary);
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    Tokens& seen = followers[static_cast<size_t>(text[i])];
    if (std::find(seen.begin(), seen.end(), text[i + 1]) == seen.end()) seen.push_back(text[i + 1]);
  }
  for (int64_t token = 0; token < kVocabulary; ++token) {
    const std::vector<double> scores = next_scores(model, {token});
    for (const int64_t next : followers[static_cast<size_t>(token)]) {
      EXPECT_LT(std::count_if(scores.begin(), scores.end(),
                              [&](double score) { return score > scores[static_cast<size_t>(next)]; }),
                3);
    }
  }
  EXPECT_EQ(followers[static_cast<size_t>(text[0])].size(), 3u) << "at this temperature all three come";
}

TEST(Generate, RefusesBadArguments) {
  Gpt model = make_gpt();
  const Tokens prompt = {1};
  EXPECT_EQ(generate(model, prompt, {.count = 0}), Tokens());
  EXPECT_ERROR(generate(model, Tokens{}), ErrorCode::kInvalidArgument, "needs a prompt");
  EXPECT_ERROR(generate(model, prompt, {.count = -1}), ErrorCode::kInvalidArgument, "count");
  EXPECT_ERROR(generate(model, prompt, {.temperature = -1}), ErrorCode::kInvalidArgument, "temperature");
  EXPECT_ERROR(generate(model, prompt, {.temperature = std::nan("")}), ErrorCode::kInvalidArgument,
               "temperature");
  EXPECT_ERROR(generate(model, prompt, {.top_k = -1}), ErrorCode::kInvalidArgument, "top_k");
  for (const int64_t outside : {int64_t{-1}, kVocabulary}) {
    EXPECT_ERROR(generate(model, Tokens{1, outside}), ErrorCode::kOutOfRange, "vocabulary of 7");
  }
  const Variable table = model.parameters()[0];
  table.assign(full(table.shape(), std::numeric_limits<double>::quiet_NaN(), table.dtype()));
  EXPECT_ERROR(generate(model, prompt), ErrorCode::kNotANumber, "NaN");
}

TEST(Generate, DrawsFromFiniteScoresOnly) {
  Gpt model({.vocabulary = 3, .context = 4, .layers = 1, .heads = 1, .width = 4, .bias = true});
  model.build({DType::kI64, {1, 4}});
  for (const auto& [name, variable] : model.named_parameters()) {
    if (name == "tokens/embeddings" || name == "norm/beta")
      variable.assign(full(variable.shape(), 1e30, variable.dtype()));
  }
  const std::vector<int64_t> prompt = {0};
  EXPECT_ERROR(generate(model, prompt, {.count = 1}), ErrorCode::kNotANumber, "the largest score is inf");
  EXPECT_ERROR(generate(model, prompt, {.temperature = std::numeric_limits<double>::infinity()}),
               ErrorCode::kInvalidArgument, "finite temperature");
}

}  // namespace
}  // namespace isochron::nn
