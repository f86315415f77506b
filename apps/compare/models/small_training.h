// The training that the loops and tables of `gpu-memory` share: Dense(10, relu) on 100 inputs and Dense(1),
// Adam at 0.001, mean squared error, 1,000 rows in batches of 32.
#pragma once

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/optim/optimizers.h"

namespace isochron::apps {

constexpr int64_t kSmallRows = 1000;
constexpr int64_t kSmallBatch = 32;
constexpr int64_t kSmallSteps = (kSmallRows + kSmallBatch - 1) / kSmallBatch;  // the last has 8 rows

/// Each loop has its own training.
struct SmallTraining {
  data::TupleDataset<2> batches = make_batches();
  nn::Sequential model{nn::Dense(10, nn::Activation::kRelu), nn::Dense(1)};
  optim::Adam optimizer{{.learning_rate = 1e-3}};

  static data::TupleDataset<2> make_batches() {
    Rng rng(1);
    Tensor x = empty({DType::kF32, {kSmallRows, 100}});
    Tensor y = empty({DType::kF32, {kSmallRows, 1}});
    for (float& value : x.span<float>()) value = static_cast<float>(rng.normal());
    for (float& value : y.span<float>()) value = static_cast<float>(rng.normal());
    return data::from_tensor_slices(x, y).batch(kSmallBatch);
  }

  Tensor train_step(const Tensor& x, const Tensor& y) {
    const Tensor loss = nn::mean_squared_error(model(x), y);
    optimizer.minimize(loss, model.parameters());
    return loss;
  }
  Tensor eager_step(const Tensor& x, const Tensor& y) {
    GradientTape tape;
    return train_step(x, y);
  }
};

}  // namespace isochron::apps
