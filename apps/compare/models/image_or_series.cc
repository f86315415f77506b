#include "isochron/apps/compare/models/image_or_series.h"

#include <algorithm>
#include <cstring>

#include "isochron/data/element/element_buffer.h"
#include "isochron/data/sources/datasets.h"
#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::apps {
namespace {

/// `rows` with `shift` added to their "x", written directly into the memory of their batch.
data::Dataset shifted(const data::Dataset& rows, float shift) {
  const auto shifted_row = [shift](const data::Element& row, data::ElementBuffer& result,
                                   const data::Position&) {
    const std::span<const float> x = row["x"].span<float>();
    std::ranges::transform(x, reinterpret_cast<float*>(result.room(0)),
                           [shift](float v) { return v + shift; });
    std::memcpy(result.room(1), row["y"].raw(), row["y"].size_bytes());
  };
  return rows.map_into({"x", "y"}, rows.signatures().front(), shifted_row);
}

}  // namespace

ImageOrSeries images() {
  const data::LabelledImages digits = data::load_digits().train;
  return {std::make_unique<nn::Sequential>(nn::Conv2D(8, {3, 3}, nn::Activation::kRelu), nn::Flatten(),
                                           nn::Dense(10)),
          [](const Tensor& logits, const Tensor& labels) {
            return nn::sparse_softmax_cross_entropy(logits, labels);
          },
          shifted(data::Dataset({{"x", digits.images}, {"y", digits.labels}}), -0.5F)};
}

ImageOrSeries series() {
  constexpr int64_t kWeeks = 26;
  const data::Co2Windows windows = data::load_co2({}, {.window_weeks = kWeeks}).train;
  const Tensor x = reshape(windows.inputs, {windows.inputs.extent(0), kWeeks, 1});
  return {std::make_unique<nn::Sequential>(nn::GRU(8), nn::Dense(1)),
          [](const Tensor& prediction, const Tensor& target) {
            return nn::mean_squared_error(prediction, target);
          },
          shifted(data::Dataset({{"x", x}, {"y", windows.targets}}), 0)};
}

train::BatchPlan::Function training(const ImageOrSeries& problem, optim::Optimizer& optimizer) {
  return [&](const data::Element& batch) {
    const Tensor loss = problem.loss_of(batch);
    optimizer.minimize(loss, problem.model->parameters(), static_cast<double>(kLongRunBatch));
    return std::vector<Tensor>{loss};
  };
}

}  // namespace isochron::apps
