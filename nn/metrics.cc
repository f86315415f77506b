#include "isochron/nn/metrics.h"

#include <cmath>
#include <limits>

#include "isochron/graph/capture.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/indexing.h"
#include "isochron/ops/reduction.h"
#include "isochron/ops/shape_ops.h"

namespace isochron::nn {
namespace {

void require_same_shape(const Tensor& prediction, const Tensor& target, std::string_view metric) {
  require(prediction.shape() == target.shape(), ErrorCode::kShapeMismatch, metric,
          "predictions are {}, targets {}; reshape one", prediction.spec().str(), target.spec().str());
}

}  // namespace

Metric::Metric(Finish finish)
    : finish_(finish),
      total_(zeros({}, DType::kF64), "total", false),
      weight_(zeros({}, DType::kF64), "weight", false) {}

double Metric::result() const {
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, "metric",
          "result() is read between steps, not in a capture");
  const double weight = weight_.tensor().item<double>();
  if (weight == 0) return std::numeric_limits<double>::quiet_NaN();
  const double mean = total_.tensor().item<double>() / weight;
  return finish_ == Finish::kMean ? mean : std::sqrt(mean);
}

void Metric::reset() {
  total_.assign(zeros({}, DType::kF64));
  weight_.assign(zeros({}, DType::kF64));
}

void Metric::add(const Tensor& values, const Tensor& weights) {
  Tensor total;
  Tensor weight;
  if (weights.defined()) {
    require(values.rank() >= 1 && weights.shape() == Shape{values.extent(0)}, ErrorCode::kShapeMismatch,
            "metric", "sample weights are {}, the values {}", weights.shape().str(), values.shape().str());
    const double per_sample =
        static_cast<double>(values.elems()) / static_cast<double>(std::max<int64_t>(values.extent(0), 1));
    Shape column = values.shape();
    for (int axis = 1; axis < column.rank(); ++axis) column[axis] = 1;
    total = sum(values * reshape(cast(weights, values.dtype()), column));
    weight = cast(sum(weights), DType::kF64) * per_sample;
  } else {
    total = sum(values);
    weight = scalar(static_cast<double>(values.elems()), DType::kF64);
  }
  total_.assign(total_.tensor() + cast(total, DType::kF64));
  weight_.assign(weight_.tensor() + weight);
}

void SparseCategoricalAccuracy::update(const Tensor& scores, const Tensor& labels,
                                       const Tensor& sample_weights) {
  require(scores.rank() == 2 && labels.shape() == Shape{scores.extent(0)}, ErrorCode::kShapeMismatch,
          "accuracy", "scores must be (N, classes) and labels (N), got {} and {}", scores.spec().str(),
          labels.spec().str());
  require(labels.dtype() == DType::kI64 || labels.dtype() == DType::kI32, ErrorCode::kDtypeMismatch,
          "accuracy", "labels must be i32 or i64, got {}", labels.spec().str());
  add(cast(equal(argmax(scores, -1), cast(labels, DType::kI64)), DType::kF32), sample_weights);
}

void MeanAbsoluteError::update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights) {
  require_same_shape(prediction, target, "mean_absolute_error");
  add(abs(prediction - target), sample_weights);
}

void RootMeanSquaredError::update(const Tensor& prediction, const Tensor& target,
                                  const Tensor& sample_weights) {
  require_same_shape(prediction, target, "root_mean_squared_error");
  add(square(prediction - target), sample_weights);
}

}  // namespace isochron::nn
