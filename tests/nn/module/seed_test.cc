// One seed for everything random: random ops, initial weights, the order of data, image functions, noise on
// gradients, generated text.
#include <gtest/gtest.h>

#include <set>

#include "isochron/core/base/seed.h"
#include "isochron/data/images/image_ops.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/stages/combine.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/models/gpt.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

std::vector<double> weights() {
  Sequential model(Dense(5), Dense(3));
  model.build({DType::kF32, {1, 4}});
  std::vector<double> all;
  for (const Variable& parameter : model.parameters())
    for (const double value : parameter.tensor().to_vector()) all.push_back(value);
  return all;
}

std::vector<double> order_of(data::Dataset dataset) {
  std::vector<double> order;
  for (auto& element : dataset) order.push_back(element[0].to_vector()[0]);
  return order;
}
data::Dataset rows() { return data::from_tensor_slices({{"x", arange(40)}}); }
std::vector<double> shuffled() { return order_of(rows().shuffle(40)); }
std::vector<double> sampled() {
  return order_of(data::sample_from_datasets({rows(), rows()}, {1, 1}).take(30));
}

/// The numbers of an image whose colors are changed at random.
std::vector<double> jittered(const data::ImageKey& key = {}) {
  std::vector<float> pixels(8 * 8 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i) / 200;
  data::color_jitter(data::ImageView<float>(pixels.data(), 8, 8, 3), key, {0.5, 0.5, 0.5, 0.1});
  return {pixels.begin(), pixels.end()};
}
/// Zeros after two steps on noise alone.
std::vector<double> noisy(const optim::GradientNoise& noise = {.eta = 0.1}) {
  const Variable variable(zeros({6}, DType::kF64), "variable");
  optim::Sgd optimizer({.learning_rate = 1, .step = {.noise = noise}});
  const Tensor gradient = zeros({6}, DType::kF64);
  for (int i = 0; i < 2; ++i) optimizer.apply({&variable, 1}, {&gradient, 1});
  return variable.tensor().to_vector();
}
/// Tokens of a model whose weights don't depend on the seed.
std::vector<double> generated(GenerateOptions options = {}) {
  Gpt model({.vocabulary = 50, .context = 4, .layers = 1, .heads = 1, .width = 4});
  model.build({DType::kI64, {1, 4}});
  for (const Variable& parameter : model.parameters())
    parameter.assign(zeros(parameter.shape(), parameter.dtype()));
  options.count = 12;
  const int64_t prompt[] = {1, 2};
  const std::vector<int64_t> tokens = generate(model, prompt, options);
  return {tokens.begin(), tokens.end()};
}

/// Two draws for each of 64 elements, in two maps.
std::vector<double> drawn_in_maps(int parallel, int epochs = 1) {
  const auto add = [](const Tensor& x) { return x + random_uniform({1}, 0, 1, DType::kF64); };
  auto dataset =
      data::from_tensor_slices(zeros({64}, DType::kF64))
          .map(
              [](const Tensor&) {
                return concatenate(
                    {random_uniform({2}, 0, 1, DType::kF64), random_normal({2}, 0, 1, DType::kF64)}, 0);
              },
              {.parallel = parallel})
          .map(add, {.parallel = parallel})
          .prefetch(4);
  std::vector<double> numbers;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (auto& element : dataset) {
      const std::vector<double> more = std::get<0>(element).to_vector();
      numbers.insert(numbers.end(), more.begin(), more.end());
    }
  }
  return numbers;
}

TEST(Seed, DrawsInMapsAreThoseOfTheElement) {
  random::set_seed(4);
  const std::vector<double> untouched = random_uniform({8}).to_vector();
  random::set_seed(4);
  const std::vector<double> numbers = drawn_in_maps(1, 2);
  EXPECT_EQ(random_uniform({8}).to_vector(), untouched);  // nothing was taken from this thread's stream
  for (const int parallel : {2, 4}) EXPECT_EQ(drawn_in_maps(parallel, 2), numbers);
  ASSERT_EQ(numbers.size(), 2u * 64 * 4);
  EXPECT_EQ(std::set<double>(numbers.begin(), numbers.end()).size(), numbers.size());
  random::set_seed(5);
  EXPECT_NE(drawn_in_maps(1, 2), numbers);
  random::set_seed(0);
}

TEST(Seed, SetsAllThatDraws) {
  const auto all = [](uint64_t seed) {
    random::set_seed(seed);
    std::vector<std::vector<double>> results = {weights(),  shuffled(), sampled(),
                                                jittered(), noisy(),    generated()};
    results.push_back(random_normal({7}).to_vector());
    return results;
  };
  const auto first = all(1), again = all(1), other = all(2);
  EXPECT_EQ(first, again);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], other[i]) << i;
}

TEST(Seed, WeightsDontDependOnOtherDraws) {
  random::set_seed(3);
  const std::vector<double> before = weights();
  random::set_seed(3);
  random_uniform({100});
  shuffled();
  random_normal({3});
  EXPECT_EQ(weights(), before);
  EXPECT_NE(weights(), before) << "the next model has its own";
  random::set_seed(3);
  weights();
  const std::vector<double> draws = random_uniform({5}).to_vector();
  random::set_seed(3);
  EXPECT_EQ(random_uniform({5}).to_vector(), draws) << "nor draws on weights";
}

TEST(Seed, TheStreamsDiffer) {
  // Without a derived seed, the first weights would be the first numbers drawn.
  random::set_seed(11);
  const std::vector<double> drawn = random_uniform({20}, -1, 1).to_vector();
  Dense dense(5, Activation::kNone, {.bias = false, .kernel_initializer = init::uniform(-1, 1)});
  dense.build({DType::kF32, {1, 4}});
  const std::vector<double> kernel = dense.kernel().tensor().to_vector();
  for (size_t i = 0; i < kernel.size(); ++i) EXPECT_NE(kernel[i], drawn[i]);
  EXPECT_NE(derived_seed(11, "a"), derived_seed(11, "b"));
  EXPECT_NE(derived_seed(11, "a"), derived_seed(12, "a"));
}

TEST(Seed, TheLastCallCounts) {
  random::set_seed(5);
  const std::vector<double> of_5 = weights();
  set_initializer_seed(7);
  const std::vector<double> of_7 = weights();
  EXPECT_NE(of_7, of_5);
  random::set_seed(5);
  EXPECT_EQ(weights(), of_5);
  set_initializer_seed(7);
  EXPECT_EQ(weights(), of_7);
}

TEST(Seed, SeedsOfTheirOwnAreKept) {
  const auto all = [](uint64_t seed) {
    random::set_seed(seed);
    return std::vector<std::vector<double>>{order_of(rows().shuffle(40, {.seed = 9})), jittered({.seed = 9}),
                                            noisy({.eta = 0.1, .seed = 9}), generated({.seed = 9})};
  };
  const auto first = all(5);
  EXPECT_EQ(first, all(6));
  random::set_seed(9);
  EXPECT_NE(first[1], jittered()) << "streams are derived, never the seed itself";
  EXPECT_NE(first[2], noisy());
  EXPECT_NE(first[3], generated());
}

TEST(Seed, AnOptimizersNoiseIsThatOfTheSeedItWasMadeUnder) {
  const auto first_step = [](uint64_t made, uint64_t later) {
    random::set_seed(made);
    optim::Sgd optimizer({.learning_rate = 1, .step = {.noise = {.eta = 0.1}}});
    random::set_seed(later);
    const Variable variable(zeros({6}), "variable");
    const Tensor gradient = zeros({6});
    optimizer.apply({&variable, 1}, {&gradient, 1});
    return variable.tensor().to_vector();
  };
  EXPECT_EQ(first_step(1, 1), first_step(1, 2));
  EXPECT_NE(first_step(1, 1), first_step(2, 1));
}

TEST(Seed, WhatIsCapturedInAMapMustNotDraw) {
  auto noisy = capture([](const Tensor& x) { return x + random_normal({1}); });
  const auto read = [&] {
    auto dataset = data::from_tensor_slices(zeros({4})).map([&](const Tensor& x) { return copy(noisy(x)); });
    for (auto& element : dataset) static_cast<void>(element);
  };
  EXPECT_ERROR(read(), ErrorCode::kCaptureViolation, "a function that draws can't be captured in a map");
  random::Generator own(1);
  auto with_its_own =
      capture([&](const Tensor& x) { return x + random_normal({1}, 0, 1, DType::kF32, own); });
  auto drawn =
      data::from_tensor_slices(zeros({4})).map([&](const Tensor& x) { return copy(with_its_own(x)); });
  std::set<double> numbers;
  for (auto& element : drawn) numbers.insert(std::get<0>(element).to_vector()[0]);
  EXPECT_EQ(numbers.size(), 4u);
}

}  // namespace
}  // namespace isochron::nn
