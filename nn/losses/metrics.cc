#include "isochron/nn/losses/metrics.h"

#include <cmath>
#include <limits>

#include "isochron/core/telemetry/sealed.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::nn {
namespace {

void require_same_shape(const Tensor& prediction, const Tensor& target, std::string_view metric) {
  require(prediction.shape() == target.shape(), ErrorCode::kShapeMismatch, metric,
          "predictions are {}, targets {}; reshape one", prediction.spec().str(), target.spec().str());
}

void require_label_of_each(const Tensor& scores, const Tensor& labels) {
  const bool fit =
      scores.rank() >= 2 &&
      labels.shape() == Shape(scores.shape().span().first(static_cast<size_t>(scores.rank() - 1)));
  require(fit, ErrorCode::kShapeMismatch, "accuracy",
          "scores must be (N, ..., classes) and labels (N, ...), got {} and {}", scores.spec().str(),
          labels.spec().str());
  require(labels.dtype() == DType::kI64 || labels.dtype() == DType::kI32, ErrorCode::kDtypeMismatch,
          "accuracy", "labels must be i32 or i64, got {}", labels.spec().str());
}

/// The classes that target distributions represent.
Tensor labels_of(const Tensor& scores, const Tensor& targets) {
  require_same_shape(scores, targets, "accuracy");
  require(scores.rank() >= 2, ErrorCode::kShapeMismatch, "accuracy",
          "scores must be (N, ..., classes), got {}", scores.spec().str());
  return argmax(targets, -1);
}

Tensor as_numbers(const Tensor& truths) { return cast(truths, DType::kF32); }

Tensor hits(const Tensor& scores, const Tensor& labels) {
  require_label_of_each(scores, labels);
  return as_numbers(equal(argmax(scores, -1), cast(labels, DType::kI64)));
}

}  // namespace

Metric::Metric(std::initializer_list<std::pair<std::string, Shape>> sums) {
  for (const auto& [name, shape] : sums) state_.emplace_back(zeros(shape, DType::kF64), name, false);
}

void Metric::reset() {
  for (const Variable& sum : state_) sum.assign(zeros(sum.shape(), DType::kF64));
}

Tensor Metric::sum_of(size_t index) const {
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, "metric",
          "result() is read between steps, not in a capture");
  const UnsealedScope reading;  // reading from a device allocates memory
  return to_device(state_[index].tensor(), {});
}

void Metric::add_to(size_t index, const Tensor& amount) const {
  const Variable& sum = state_[index];
  const bool now = graph::Capture::current() == nullptr;
  sum.assign(sum.tensor() + cast(now ? graph::to_device(amount, sum.device()) : amount, DType::kF64));
}

Tensor weight_column(const Tensor& sample_weights, const Shape& shape, std::string_view metric) {
  Shape column = shape;
  for (int axis = 1; axis < column.rank(); ++axis) column[axis] = 1;
  if (!sample_weights.defined()) return constant(full(column, 1, DType::kF64));
  require(shape.rank() >= 1 && sample_weights.shape() == Shape{shape[0]}, ErrorCode::kShapeMismatch, metric,
          "sample weights are {}, the values {}", sample_weights.shape().str(), shape.str());
  return cast(reshape(sample_weights, column), DType::kF64);
}

MeanMetric::MeanMetric(Finish finish) : Metric({{"total", {}}, {"weight", {}}}), finish_(finish) {}

double MeanMetric::result() const {
  const double total = sum_of(0).item<double>();
  const double weight = sum_of(1).item<double>();
  if (weight == 0) return std::numeric_limits<double>::quiet_NaN();
  return finish_ == Finish::kMean ? total / weight : std::sqrt(total / weight);
}

void MeanMetric::add(const Tensor& values, const Tensor& sample_weights) {
  if (!sample_weights.defined()) {
    const bool wide = values.dtype() == DType::kF32 || values.dtype() == DType::kF64;
    add_to(0, sum(wide ? values : cast(values, DType::kF64)));  // a sum has the precision of its dtype
    add_to(1, scalar(static_cast<double>(values.elems()), DType::kF64));
    return;
  }
  const Tensor weights = weight_column(sample_weights, values.shape(), "metric");
  const double per_sample =
      static_cast<double>(values.elems()) / static_cast<double>(std::max<int64_t>(values.extent(0), 1));
  add_to(0, sum(cast(values, DType::kF64) * weights));
  add_to(1, sum(weights) * per_sample);
}

void MeanMetric::add_weighted(const Tensor& values, const Tensor& weights) {
  add_to(0, sum(cast(values, DType::kF64) * weights));
  add_to(1, sum(weights));
}

void BinaryAccuracy::update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights) {
  require_same_shape(prediction, target, "binary_accuracy");
  const Tensor& p = prediction;  // integers are cast below: the threshold is a fraction
  const Tensor positive = as_numbers((is_floating(p.dtype()) ? p : as_numbers(p)) > threshold_);
  add(as_numbers(equal(positive, as_numbers(target))), sample_weights);
}

void SparseCategoricalAccuracy::update(const Tensor& scores, const Tensor& labels,
                                       const Tensor& sample_weights) {
  const Tensor right = hits(scores, labels);
  if (!ignored_) return add(right, sample_weights);
  const Tensor counted =
      not_equal(cast(labels, DType::kI64), scalar(static_cast<double>(*ignored_), DType::kI64));
  add_weighted(right, cast(counted, DType::kF64) * weight_column(sample_weights, labels.shape(), "accuracy"));
}

void CategoricalAccuracy::update(const Tensor& scores, const Tensor& targets, const Tensor& sample_weights) {
  add(hits(scores, labels_of(scores, targets)), sample_weights);
}

SparseTopKCategoricalAccuracy::SparseTopKCategoricalAccuracy(int64_t k) : k_(k) {
  require(k >= 1, ErrorCode::kInvalidArgument, "top_k_accuracy", "k must be >= 1, got {}", k);
}

void SparseTopKCategoricalAccuracy::update(const Tensor& scores, const Tensor& labels,
                                           const Tensor& sample_weights) {
  require_label_of_each(scores, labels);
  const Tensor at_label = one_hot(cast(labels, DType::kI64), scores.extent(-1), DType::kBool);
  const Tensor lowest =
      constant(full({}, -std::numeric_limits<double>::infinity(), scores.dtype()));  // loses to any score
  const Tensor own = max(where(at_label, scores, lowest), {-1}, true);
  const Tensor larger = sum(as_numbers(scores > own), {-1}, true);
  const Tensor hit = logical_and(larger < static_cast<double>(k_), is_finite(own));
  add(as_numbers(reshape(hit, labels.shape())), sample_weights);
}

void TopKCategoricalAccuracy::update(const Tensor& scores, const Tensor& targets,
                                     const Tensor& sample_weights) {
  SparseTopKCategoricalAccuracy::update(scores, labels_of(scores, targets), sample_weights);
}

namespace {
/// prediction - target, in f64 if the dtype can't represent it or its square.
Tensor difference(const Tensor& prediction, const Tensor& target, std::string_view metric) {
  require_same_shape(prediction, target, metric);
  const DType dtype = prediction.dtype();
  if (dtype == DType::kF32 || dtype == DType::kF64) return prediction - target;
  return cast(prediction, DType::kF64) - cast(target, DType::kF64);
}
}  // namespace

void MeanAbsoluteError::update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights) {
  add(abs(difference(prediction, target, "mean_absolute_error")), sample_weights);
}

void MeanSquaredError::update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights) {
  add(square(difference(prediction, target, "mean_squared_error")), sample_weights);
}

void RootMeanSquaredError::update(const Tensor& prediction, const Tensor& target,
                                  const Tensor& sample_weights) {
  add(square(difference(prediction, target, "root_mean_squared_error")), sample_weights);
}

namespace {
enum R2Sum : size_t { kWeight, kMean, kDeviations, kErrors };
}  // namespace

R2Score::R2Score(int64_t outputs)
    : Metric({{"weight", {}},
              {"mean", {std::max<int64_t>(outputs, 0)}},
              {"deviations", {std::max<int64_t>(outputs, 0)}},
              {"errors", {std::max<int64_t>(outputs, 0)}}}),
      outputs_(outputs) {
  require(outputs >= 1, ErrorCode::kInvalidArgument, "r2_score", "outputs must be >= 1, got {}", outputs);
}

void R2Score::update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights) {
  require_same_shape(prediction, target, "r2_score");
  const bool fit = (prediction.rank() == 2 && prediction.extent(1) == outputs_) ||
                   (prediction.rank() == 1 && outputs_ == 1);
  require(fit, ErrorCode::kShapeMismatch, "r2_score", "expected (N, {}), got {}", outputs_,
          prediction.spec().str());
  const Shape rows{prediction.extent(0), outputs_};
  const Tensor p = cast(reshape(prediction, rows), DType::kF64);
  const Tensor t = cast(reshape(target, rows), DType::kF64);
  const Tensor weights = weight_column(sample_weights, rows, "r2_score");
  const auto at_least_some = [](const Tensor& weight) {
    return where(equal(weight, scalar(0, DType::kF64)), scalar(1, DType::kF64), weight);
  };
  const Tensor weight = sum(weights);
  const Tensor mean = sum(weights * t, {0}) / at_least_some(weight);
  const Tensor deviations = sum(weights * square(t - mean), {0});
  const Tensor before = state()[kWeight].tensor();
  const Tensor share = weight / at_least_some(before + weight);
  const Tensor shift = mean - state()[kMean].tensor();
  const Tensor between = square(shift) * before * share;
  add_to(kMean, shift * share);
  add_to(kDeviations, deviations + between);
  add_to(kErrors, sum(weights * square(t - p), {0}));
  add_to(kWeight, weight);
}

double R2Score::result() const {
  const double weight = sum_of(kWeight).item<double>();
  if (weight == 0) return std::numeric_limits<double>::quiet_NaN();
  const Tensor of_means = sum_of(kMean), of_deviations = sum_of(kDeviations), of_errors = sum_of(kErrors);
  const auto means = of_means.span<double>(), deviations = of_deviations.span<double>(),
             errors = of_errors.span<double>();
  constexpr double kRounding = 1e-12;  // of the mean of equal numbers, relative
  double total = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    const double none = weight * (kRounding * means[i]) * (kRounding * means[i]);
    if (deviations[i] > none || std::isnan(deviations[i]) || std::isnan(errors[i])) {
      total += 1 - errors[i] / deviations[i];
    } else {
      total += errors[i] <= none ? 1 : 0;
    }
  }
  return total / static_cast<double>(errors.size());
}

}  // namespace isochron::nn
