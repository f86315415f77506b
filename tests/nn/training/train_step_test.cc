// The train step of the README's first screen.
#include <gtest/gtest.h>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"

namespace isochron {
namespace {

Tensor normal_tensor(const Shape& shape) {
  Rng rng(5);
  return from_vector(shape, nn::init::normal(0, 1)(shape, rng));
}

TEST(Training, TheTenLineTrainStepRunsAsWritten) {
  const Tensor features = normal_tensor({1000, 100});
  const Tensor targets = sum(features, {1}, true) * 0.1;

  auto model = nn::Sequential(nn::Dense(10, nn::Activation::kRelu), nn::Dense(1));
  auto optimizer = optim::Adam({.learning_rate = 1e-3});
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    Tensor loss = nn::mean_squared_error(model(x), y);
    optimizer.minimize(loss, model.parameters());  // gradients and update belong to the step
    return loss;
  });
  auto batches = data::from_tensor_slices(features, targets).shuffle(1000).batch(32).prefetch();
  for (int epoch = 0; epoch < 10; ++epoch)
    for (auto& [x, y] : batches) step(x, y);

  EXPECT_EQ(optimizer.step_count(), 10 * 32);
  EXPECT_EQ(step.plan_count(), 2u);  // full batches and the partial last one
  EXPECT_LT(nn::mean_squared_error(model(features), targets).item<double>(),
            0.5 * mean(square(targets)).item<double>());
}

}  // namespace
}  // namespace isochron
