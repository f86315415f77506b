#include "isochron/train/loop/batch_functions.h"

#include <algorithm>
#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::train {
namespace {

/// The weights of a batch's samples, (N) of the prediction's dtype; undefined if all samples count alike.
Tensor weights_of_samples(const data::Element& batch, const SampleWeighting& weighting,
                          const Tensor& prediction) {
  const DType dtype = prediction.dtype();
  Tensor weights;
  if (weighting.from_batch) {
    require(batch.size() >= 3, ErrorCode::kInvalidArgument, "train",
            "a batch must hold inputs, targets and sample weights, got {}", batch.str());
    weights = cast(batch[2], dtype);
  }
  if (weighting.class_weights.empty()) return weights;
  const Tensor& target = batch[1];
  const auto classes = static_cast<int64_t>(weighting.class_weights.size());
  const bool distribution = target.rank() == 2 && target.extent(1) == classes && is_floating(target.dtype());
  require(distribution || (target.rank() == 1 && !is_floating(target.dtype())), ErrorCode::kShapeMismatch,
          "train", "{} class weights need whole-number labels (N) or distributions (N, {}), got {}", classes,
          classes, target.spec().str());
  const bool of_classes = prediction.rank() == 2 && prediction.extent(1) > 1;
  require(!of_classes || prediction.extent(1) == classes, ErrorCode::kShapeMismatch, "train",
          "{} class weights, but the model predicts {} classes", classes, prediction.extent(-1));
  const Tensor table = constant(from_vector({classes}, weighting.class_weights, dtype));
  const Tensor by_class = gather(table, distribution ? argmax(target, 1) : cast(target, DType::kI64));
  return weights.defined() ? weights * by_class : by_class;
}

}  // namespace

BatchFunctions supervised(nn::Module& model, Loss loss, optim::Optimizer& optimizer,
                          std::vector<NamedMetric> metrics, SampleWeighting weighting) {
  for (const double weight : weighting.class_weights) {
    require(std::isfinite(weight) && weight >= 0, ErrorCode::kInvalidArgument, "train",
            "a class weight is {}, expected a finite number >= 0", weight);
  }
  for (const NamedMetric& entry : metrics) {
    require(static_cast<bool>(entry.update), ErrorCode::kInvalidArgument, "train",
            "metric '{}' has no function that updates it; make it by train::metric(name, values)",
            entry.name);
  }
  SampleWeighting of_samples = weighting;
  of_samples.class_weights.clear();
  const auto forward = [&model, loss, metrics](const data::Element& batch, const SampleWeighting& applied) {
    require(batch.size() >= 2, ErrorCode::kInvalidArgument, "train",
            "a batch must hold inputs and targets, got {}", batch.str());
    require(!batch.contains("valid"), ErrorCode::kUnsupported, "train",
            "batches mark padded rows in 'valid', but loss, metrics and predictions would count those rows; "
            "leave pad_remainder out: a smaller last batch has a plan of its own, which is made once");
    const Tensor prediction = model(batch[0]);
    for (const NamedMetric& entry : metrics) entry.update(prediction, batch[1]);
    return loss(prediction, batch[1], weights_of_samples(batch, applied, prediction));
  };
  return {
      .train =
          [forward, weighting, &model, &optimizer](const data::Element& batch) {
            const Tensor value = forward(batch, weighting);
            optimizer.minimize(value, model.parameters(),
                               static_cast<double>(std::max<int64_t>(batch_rows(batch), 1)));
            return value;
          },
      .evaluate = [forward, of_samples](const data::Element& batch) { return forward(batch, of_samples); },
      .predict = [&model](const data::Element& batch) { return model(batch[0]); },
      .metrics = std::move(metrics),
      .optimizer = &optimizer,
      .weights = [&model] { return weights_of(model); },
      .slots = [&optimizer] { return slots_of(optimizer); },
      .averages = [&model] { return model.averages(); }};
}

}  // namespace isochron::train
