// Layers, losses and metrics that are called on a device without a capture train as they do on the CPU.
#include <gmock/gmock.h>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/nn/layers/attention.h"
#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/layers/embedding.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/losses/metrics.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

constexpr int64_t kClasses = 5;

Tensor drawn_classes(const Shape& shape, Rng& rng) {
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = static_cast<double>(rng.below(kClasses));
  return from_vector(shape, values, DType::kI32);
}

/// Losses of three steps on `device`, the accuracy over them, then the loss outside training.
std::vector<double> train_eagerly(nn::Sequential model, const Tensor& x, const Tensor& labels,
                                  Device device) {
  random::set_seed(7);
  const VariableDeviceScope variables_there(device);
  nn::SparseCategoricalAccuracy accuracy;
  const Tensor there = to_device(x, device), wanted = to_device(labels, device);
  optim::Adam optimizer({.learning_rate = 0.02});
  std::vector<double> results;
  for (int i = 0; i < 3; ++i) {
    GradientTape tape;
    const Tensor scores = model(there);
    const Tensor loss = nn::sparse_softmax_cross_entropy(scores, wanted);
    EXPECT_EQ(loss.device(), device);
    optimizer.minimize(loss, model.parameters());
    accuracy.update(scores, wanted);
    results.push_back(loss.item<double>());
  }
  results.push_back(accuracy.result());
  const nn::TrainingScope evaluation(false);
  results.push_back(nn::sparse_softmax_cross_entropy(model(there), wanted).item<double>());
  return results;
}

template <typename Make>
void expect_the_cpus_training(const Make& make, const Tensor& x, const Tensor& labels) {
  const SimulatedGpu simulated;
  const std::vector<double> want = train_eagerly(make(), x, labels, {});
  EXPECT_THAT(train_eagerly(make(), x, labels, SimulatedGpu::kDevice),
              testing::Pointwise(testing::DoubleNear(1e-4), want));
  EXPECT_LT(want[2], want[0]);
}

TEST(DeviceEagerTraining, OfConvolutions) {
  Rng rng(3);
  const auto make = [] {
    return nn::Sequential(nn::Conv2D(4, {3, 3}, nn::Activation::kNone, {.bias = false}), nn::BatchNorm(),
                          nn::Activate(nn::Activation::kRelu), nn::Dropout(0.1), nn::Flatten(),
                          nn::Dense(kClasses));
  };
  const Tensor x = from_vector({6, 8, 8, 2}, nn::init::normal(0, 1)({6, 8, 8, 2}, rng));
  expect_the_cpus_training(make, x, drawn_classes({6}, rng));
}

TEST(DeviceEagerTraining, OfSequences) {
  Rng rng(4);
  const auto make = [] {
    return nn::Sequential(nn::Embedding(kClasses, 8), nn::MultiHeadAttention(8, 2), nn::LayerNorm(),
                          nn::LSTM(8), nn::Dense(kClasses));
  };
  expect_the_cpus_training(make, drawn_classes({6, 7}, rng), drawn_classes({6}, rng));
}

}  // namespace
}  // namespace isochron
