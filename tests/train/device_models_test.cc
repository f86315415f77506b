// Networks of every kind of layer, trained on a simulated device and on the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/core/base/rng.h"
#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/gpt.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"
#include "support/simulated/training_gpu.h"

namespace isochron::train {
namespace {

Tensor random_numbers(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = rng.uniform() - 0.5;
  return from_vector(shape, values);
}

Tensor random_classes(const Shape& shape, int64_t classes, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = std::floor(rng.uniform() * static_cast<double>(classes));
  return from_vector(shape, values, DType::kI64);
}

struct Outcome {
  std::vector<double> losses;  // per epoch, and of the evaluation
  std::vector<std::vector<double>> weights;
};

/// Two epochs of Adam, with the same seeds in each call.
template <typename Model>
Outcome trained(Model&& model, const Loss& loss, const Tensor& x, const Tensor& y, Device device,
                Precision precision = Precision::kF32) {
  random::set_seed(5);
  nn::set_initializer_seed(5);
  optim::StepOptions step;
  if (precision == Precision::kMixedF16) step.loss_scale = optim::LossScale::dynamic();
  optim::Adam optimizer({.learning_rate = 0.01, .step = step});
  BatchFunctions functions = supervised(model, loss, optimizer);
  functions.device = device;
  functions.precision = precision;
  Trainer trainer(std::move(functions));
  auto batches = data::from_tensor_slices(x, y).batch(4);  // the last of two rows
  Outcome outcome;
  outcome.losses = trainer.fit(batches, {.epochs = 2, .progress = nullptr}).values("loss");
  outcome.losses.push_back(trainer.evaluate(batches)["loss"]);
  for (const auto& [name, variable] : weights_of(model)) {
    EXPECT_EQ(variable.device(), device) << name;
    outcome.weights.push_back(variable.tensor().to_vector());
  }
  random::default_generator().move_to({});
  return outcome;
}

/// `make` creates a new model.
template <typename Make>
void expect_the_same(const Make& make, const Loss& loss, const Tensor& x, const Tensor& y,
                     Precision precision = Precision::kF32, double tolerance = 2e-4) {
  const SimulatedGpu simulated;
  const Outcome want = trained(make(), loss, x, y, {}, precision);
  const Outcome got = trained(make(), loss, x, y, SimulatedGpu::kDevice, precision);
  expect_near(got.losses, want.losses, tolerance);
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (size_t i = 0; i < got.weights.size(); ++i)
    expect_near(got.weights[i], want.weights[i], 10 * tolerance);
}

nn::Sequential images() {
  return nn::Sequential(nn::Conv2D(6, {3, 3}, nn::Activation::kRelu, {.padding = Padding::same()}),
                        nn::MaxPool2D({2, 2}), nn::Conv2D(4, {2, 2}, nn::Activation::kNone, {.groups = 2}),
                        nn::AveragePool2D({2, 2}), nn::Flatten(), nn::Dense(3));
}

TEST(DeviceModels, Convolutions) {
  expect_the_same(images, nn::sparse_softmax_cross_entropy, random_numbers({10, 8, 8, 2}, 1),
                  random_classes({10}, 3, 2));
}

TEST(DeviceModels, MixedPrecision) {
  for (const Precision precision : {Precision::kMixedBf16, Precision::kMixedF16})
    expect_the_same(images, nn::sparse_softmax_cross_entropy, random_numbers({10, 8, 8, 2}, 1),
                    random_classes({10}, 3, 2), precision, 0.02);
}

TEST(DeviceModels, DenseLayersIn8Bits) {
  const auto dense = [] {
    return nn::Sequential(nn::Dense(16, nn::Activation::kRelu), nn::Dense(32, nn::Activation::kRelu),
                          nn::Dense(16), nn::Dense(3));
  };
  expect_the_same(dense, nn::sparse_softmax_cross_entropy, random_numbers({10, 32}, 1),
                  random_classes({10}, 3, 2), Precision::kMixedFp8, 5e-3);
}

TEST(DeviceModels, Recurrent) {
  const Tensor x = random_numbers({10, 5, 3}, 1), y = random_numbers({10, 1}, 2);
  const auto lstm = [] {
    return nn::Sequential(nn::LSTM(4, {.return_sequences = true, .bidirectional = true}), nn::LSTM(3),
                          nn::Dense(1));
  };
  const auto gru = [] { return nn::Sequential(nn::GRU(4, {.reverse = true}), nn::Dense(1)); };
  expect_the_same(lstm, nn::mean_squared_error, x, y);
  expect_the_same(gru, nn::mean_squared_error, x, y);
  expect_the_same(lstm, nn::mean_squared_error, x, y, Precision::kMixedBf16, 2e-2);
  expect_the_same(gru, nn::mean_squared_error, x, y, Precision::kMixedBf16, 2e-2);
}

TEST(DeviceModels, GptIn16Bits) {
  const nn::GptOptions options{.vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 16};
  expect_the_same([&] { return nn::Gpt(options); }, nn::sparse_softmax_cross_entropy,
                  random_classes({10, 6}, 7, 1), random_classes({10, 6}, 7, 2), Precision::kMixedBf16, 2e-2);
}

TEST(DeviceModels, Gpt) {
  const nn::GptOptions options{.vocabulary = 7, .context = 6, .layers = 2, .heads = 2, .width = 8};
  const Tensor tokens = random_classes({10, 6}, 7, 1), next = random_classes({10, 6}, 7, 2);
  expect_the_same([&] { return nn::Gpt(options); }, nn::sparse_softmax_cross_entropy, tokens, next);

  const SimulatedGpu simulated;
  nn::Gpt here(options), there(options);
  trained(here, nn::sparse_softmax_cross_entropy, tokens, next, {});
  trained(there, nn::sparse_softmax_cross_entropy, tokens, next, SimulatedGpu::kDevice);
  const int64_t prompt[] = {3, 1};
  const nn::GenerateOptions greedy{.count = 8, .temperature = 0};
  EXPECT_EQ(nn::generate(there, prompt, greedy), nn::generate(here, prompt, greedy));
}

}  // namespace
}  // namespace isochron::train
