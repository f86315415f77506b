#include "isochron/train/batch_functions.h"

#include <algorithm>

#include "isochron/core/error.h"

namespace isochron::train {
namespace {

double rows_of(const data::Element& batch) {
  return static_cast<double>(batch[0].rank() > 0 ? std::max<int64_t>(batch[0].extent(0), 1) : 1);
}

}  // namespace

BatchFunctions supervised(nn::Module& model, Loss loss, optim::Optimizer& optimizer,
                          std::vector<NamedMetric> metrics) {
  const auto forward = [&model, loss, metrics](const data::Element& batch) {
    require(batch.size() >= 2, ErrorCode::kInvalidArgument, "train",
            "a batch must hold inputs and targets, got {}", batch.str());
    const Tensor prediction = model(batch[0]);
    for (const NamedMetric& entry : metrics) entry.update(prediction, batch[1]);
    return loss(prediction, batch[1]);
  };
  return {.train =
              [forward, &model, &optimizer](const data::Element& batch) {
                const Tensor value = forward(batch);
                optimizer.minimize(value, model.parameters(), rows_of(batch));
                return value;
              },
          .evaluate = forward,
          .predict = [&model](const data::Element& batch) { return model(batch[0]); },
          .metrics = std::move(metrics),
          .optimizer = &optimizer};
}

}  // namespace isochron::train
