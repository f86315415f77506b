// Small models and data for the planted loops.
#pragma once

#include <memory>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"

namespace isochron::causes {

inline constexpr int64_t kBatch = 32;

inline Tensor normal(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor result = full(shape, 0);
  for (float& value : result.span<float>()) value = static_cast<float>(rng.normal());
  return result;
}

/// `features`-`units`-1 on random rows, mean squared error.
struct Regression {
  explicit Regression(int64_t rows = 1024, int64_t features = 32, int64_t units = 256)
      : x(normal({rows, features}, 1)),
        y(normal({rows, 1}, 2)),
        model(nn::Dense(units, nn::Activation::kRelu), nn::Dense(1)) {}

  data::TupleDataset<2> rows() const { return data::from_tensor_slices(x, y); }
  Tensor loss(const Tensor& inputs, const Tensor& targets) {
    return nn::mean_squared_error(model(inputs), targets);
  }
  /// One step, to be captured or to run under a tape.
  Tensor train(const Tensor& inputs, const Tensor& targets) {
    const Tensor result = loss(inputs, targets);
    optimizer.minimize(result, model.parameters());
    return result;
  }
  /// The same op by op.
  Tensor train_eager(const Tensor& inputs, const Tensor& targets) {
    GradientTape tape;
    return train(inputs, targets);
  }

  Tensor x, y;
  nn::Sequential model;
  optim::Optimizer optimizer = optim::Adam();
};

/// Keeps a core busy until `ns` have passed: work whose content doesn't matter.
inline void compute_for(int64_t ns) {
  for (const int64_t end = now_ns() + ns; now_ns() < end;) {
  }
}

}  // namespace isochron::causes
