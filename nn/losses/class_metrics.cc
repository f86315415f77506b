#include "isochron/nn/losses/class_metrics.h"

#include <cmath>
#include <limits>

#include "isochron/graph/capture/capture.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::nn {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

void require_equal_shapes(const Tensor& prediction, const Tensor& target, std::string_view metric) {
  require(prediction.shape() == target.shape() && prediction.rank() >= 1, ErrorCode::kShapeMismatch, metric,
          "predictions are {}, targets {}; both must be (N, ...), reshape one", prediction.spec().str(),
          target.spec().str());
}

/// Truth values as 1 or 0 in f64.
Tensor in_f64(const Tensor& truths) { return cast(truths, DType::kF64); }

/// One weight per element of `shape`, as a list.
Tensor element_weights(const Tensor& sample_weights, const Shape& shape, std::string_view metric) {
  return reshape(broadcast_to(weight_column(sample_weights, shape, metric), shape), {shape.elems()});
}

Shape class_shape(int64_t classes) { return {std::max<int64_t>(classes, 1)}; }

enum ClassSum : size_t { kBoth, kPredicted, kActual, kClassWeight };
}  // namespace

ClassMetric::ClassMetric(const ClassMetricOptions& options)
    : Metric({{"both", class_shape(options.classes)},
              {"predicted", class_shape(options.classes)},
              {"actual", class_shape(options.classes)},
              {"weight", {}}}),
      options_(options) {
  require(options.classes == 0 || options.classes >= 2, ErrorCode::kInvalidArgument, "class_metric",
          "classes must be 0 (yes or no) or at least 2, got {}", options.classes);
}

void ClassMetric::update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights) {
  const graph::NameScope scope("class_metric");  // so that errors of its ops name it
  if (options_.classes == 0) {
    update_binary(prediction, target, sample_weights);
  } else {
    update_classes(prediction, target, sample_weights);
  }
}

void ClassMetric::update_binary(const Tensor& prediction, const Tensor& target,
                                const Tensor& sample_weights) {
  require_equal_shapes(prediction, target, "class_metric");
  const Tensor weights =
      broadcast_to(weight_column(sample_weights, prediction.shape(), "class_metric"), prediction.shape());
  const Tensor& p = prediction;
  const Tensor predicted = in_f64((is_floating(p.dtype()) ? p : in_f64(p)) > options_.threshold);
  const Tensor actual = in_f64(target);
  const auto as_list = [](const Tensor& number) { return reshape(number, {1}); };
  add_to(kBoth, as_list(sum(weights * predicted * actual)));
  add_to(kPredicted, as_list(sum(weights * predicted)));
  add_to(kActual, as_list(sum(weights * actual)));
  add_to(kClassWeight, sum(weights));
}

void ClassMetric::update_classes(const Tensor& scores, const Tensor& labels, const Tensor& sample_weights) {
  const int64_t classes = options_.classes;
  const bool fit =
      scores.rank() >= 2 && scores.extent(-1) == classes &&
      labels.shape() == Shape(scores.shape().span().first(static_cast<size_t>(scores.rank() - 1)));
  require(fit, ErrorCode::kShapeMismatch, "class_metric",
          "scores must be (N, ..., {}) and labels (N, ...), got {} and {}", classes, scores.spec().str(),
          labels.spec().str());
  require(labels.dtype() == DType::kI64 || labels.dtype() == DType::kI32, ErrorCode::kDtypeMismatch,
          "class_metric", "labels must be i32 or i64, got {}", labels.spec().str());
  const Tensor weights = element_weights(sample_weights, labels.shape(), "class_metric");
  const Tensor actual = cast(reshape(labels, {labels.elems()}), DType::kI64);
  const Tensor predicted = reshape(argmax(scores, -1), {labels.elems()});
  const Tensor both = weights * in_f64(equal(predicted, actual));
  add_to(kBoth, scatter_add(both, actual, classes));
  add_to(kPredicted, scatter_add(weights, predicted, classes));
  add_to(kActual, scatter_add(weights, actual, classes));
  add_to(kClassWeight, sum(weights));
}

template <typename Visit>
void ClassMetric::for_each_class(Visit visit) const {
  const Tensor of_both = sum_of(kBoth), of_predicted = sum_of(kPredicted), of_actual = sum_of(kActual);
  const auto both = of_both.span<double>(), predicted = of_predicted.span<double>(),
             actual = of_actual.span<double>();
  for (size_t i = 0; i < both.size(); ++i) visit(Counts{both[i], predicted[i], actual[i]});
}

std::vector<double> ClassMetric::per_class() const {
  std::vector<double> result;
  for_each_class([&](const Counts& counts) { result.push_back(of(counts)); });
  return result;
}

double ClassMetric::result() const {
  if (sum_of(kClassWeight).item<double>() == 0) return kNothing;
  Counts all;
  double total = 0;
  double weight = 0;
  for_each_class([&](const Counts& c) {
    all = {all.both + c.both, all.predicted + c.predicted, all.actual + c.actual};
    const double occurred = c.predicted + c.actual > 0 ? 1 : 0;
    const double share = options_.average == Average::kWeighted ? c.actual : occurred;
    total += share * of(c);
    weight += share;
  });
  return options_.average == Average::kMicro ? of(all) : ratio(total, weight);
}

double Precision::of(const Counts& counts) const { return ratio(counts.both, counts.predicted); }
double Recall::of(const Counts& counts) const { return ratio(counts.both, counts.actual); }

FScore::FScore(const ClassMetricOptions& options, double beta) : ClassMetric(options), beta_(beta) {
  require(beta > 0, ErrorCode::kInvalidArgument, "f_score", "beta must be > 0, got {}", beta);
}
double FScore::of(const Counts& counts) const {
  const double squared = beta_ * beta_;
  return ratio((1 + squared) * counts.both, squared * counts.actual + counts.predicted);
}

namespace {

enum CurveSum : size_t { kPositives, kNegatives };

/// True and false positives at a threshold.
struct Point {
  double true_positives = 0;
  double false_positives = 0;
};

/// The area under the ROC curve between two neighboring thresholds, in units of positives times negatives.
double roc_area(const Point& higher, const Point& lower) {
  return (higher.true_positives + lower.true_positives) / 2 *
         (lower.false_positives - higher.false_positives);
}

/// The area under the precision-recall curve, in units of positives. Between two thresholds true positives
/// grow in proportion to all positives p, tp = intercept + slope p, so the precision tp / p, integrated over
/// recall, gives a logarithm.
double precision_recall_area(const Point& higher, const Point& lower) {
  const double fewer = higher.true_positives + higher.false_positives;
  const double more = lower.true_positives + lower.false_positives;
  const double gained = lower.true_positives - higher.true_positives;
  const double slope = ratio(gained, more - fewer);
  const double intercept = higher.true_positives - slope * fewer;
  const double grown = fewer > 0 && more > 0 ? more / fewer : 1;
  return slope * (gained + intercept * std::log(grown));
}

}  // namespace

AreaUnderCurve::AreaUnderCurve(Curve curve, int64_t thresholds)
    : Metric({{"positives", class_shape(thresholds)}, {"negatives", class_shape(thresholds)}}),
      curve_(curve),
      thresholds_(thresholds) {
  require(thresholds >= 3, ErrorCode::kInvalidArgument, "area_under_curve", "thresholds must be >= 3, got {}",
          thresholds);
}

void AreaUnderCurve::update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights) {
  const graph::NameScope scope("area_under_curve");  // so that errors of its ops name it
  require_equal_shapes(prediction, target, "area_under_curve");
  constexpr double kRounding = 1e-6;  // of a softmax in f32
  const Tensor p = cast(reshape(prediction, {prediction.elems()}), DType::kF64);
  const Tensor valid = logical_and(p >= 0.0, p <= 1.0 + kRounding);
  // The threshold at index 0 lies below 0, index i at i / (thresholds - 1), the last above 1.
  const double last = static_cast<double>(thresholds_ - 1);
  // Apart from the rounding of f32, a prediction equal to a threshold doesn't exceed it.
  constexpr double kGridRounding = 1e-7;
  const Tensor exceeded = clip(ceil(p * last - kGridRounding * last), 1, last);
  const Tensor bin = cast(where(valid, exceeded, scalar(-1, DType::kF64)), DType::kI64);
  const Tensor weights = element_weights(sample_weights, prediction.shape(), "area_under_curve");
  const Tensor positive = weights * in_f64(reshape(target, {target.elems()}));
  add_to(kPositives, scatter_add(positive, bin, thresholds_));
  add_to(kNegatives, scatter_add(weights - positive, bin, thresholds_));
}

double AreaUnderCurve::result() const {
  // Bin b counts the predictions that exceed b thresholds. From each threshold to the next lower one, the
  // positives grow by one bin.
  const Tensor of_positives = sum_of(kPositives), of_negatives = sum_of(kNegatives);
  const auto positives = of_positives.span<double>(), negatives = of_negatives.span<double>();
  Point higher;
  double area = 0;
  for (size_t bin = positives.size(); bin-- > 1;) {
    const Point lower{higher.true_positives + positives[bin], higher.false_positives + negatives[bin]};
    area += curve_ == Curve::kRoc ? roc_area(higher, lower) : precision_recall_area(higher, lower);
    higher = lower;
  }
  if (higher.true_positives + higher.false_positives == 0) return kNothing;
  return ratio(
      area, curve_ == Curve::kRoc ? higher.true_positives * higher.false_positives : higher.true_positives);
}

}  // namespace isochron::nn
