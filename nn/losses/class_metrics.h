// Classification metrics that are not means: precision, recall, F-score, and the areas under the curves that
// result from varying the threshold. They use constant memory, like nn/losses/metrics.h.
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/nn/losses/metrics.h"

namespace isochron::nn {

/// How the results of several classes are combined into one number.
enum class Average {
  kMacro,     // the mean over the classes that occurred in targets or predictions, as in scikit-learn
  kMicro,     // computed from the counts of all classes together
  kWeighted,  // the mean over classes, weighted by how often they occurred in the targets
};

struct ClassMetricOptions {
  /// 0: binary, one decision per element, and the positive class is the only class. Otherwise: multi-class,
  /// and each row has scores of this many classes.
  int64_t classes = 0;
  /// For binary decisions: a prediction is positive if it is > threshold.
  double threshold = 0.5;
  Average average = Average::kMacro;
};

/// Counts per class: predictions, targets, and true positives.
class ClassMetric : public Metric {
 public:
  /// Binary: prediction (N, ...) and target of the same shape, 0 or 1, any dtype. Multi-class: scores (N,
  /// ..., classes), whose argmax is the prediction, and labels (N, ...), i32 or i64. Throws kShapeMismatch
  /// and kDtypeMismatch, and, when it runs, kOutOfRange for a label outside [0, classes).
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
  double result() const override;
  /// The result for each class separately; 0 for a class whose result would be 0 / 0.
  std::vector<double> per_class() const;

 protected:
  struct Counts {
    double both = 0;
    double predicted = 0;
    double actual = 0;
  };
  /// Throws kInvalidArgument unless classes is 0 or at least 2.
  explicit ClassMetric(const ClassMetricOptions& options);
  virtual double of(const Counts& counts) const = 0;

 private:
  /// Calls `visit(counts)` for each class.
  template <typename Visit>
  void for_each_class(Visit visit) const;
  void update_binary(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights);
  void update_classes(const Tensor& scores, const Tensor& labels, const Tensor& sample_weights);

  ClassMetricOptions options_;
};

/// True positives / (true positives + false positives).
class Precision : public ClassMetric {
 public:
  explicit Precision(const ClassMetricOptions& options = {}) : ClassMetric(options) {}

 private:
  double of(const Counts& counts) const override;
};

/// True positives / (true positives + false negatives).
class Recall : public ClassMetric {
 public:
  explicit Recall(const ClassMetricOptions& options = {}) : ClassMetric(options) {}

 private:
  double of(const Counts& counts) const override;
};

/// (1 + beta^2) precision recall / (beta^2 precision + recall); F1 by default.
class FScore : public ClassMetric {
 public:
  /// Throws kInvalidArgument unless beta > 0.
  explicit FScore(const ClassMetricOptions& options = {}, double beta = 1);

 private:
  double of(const Counts& counts) const override;
  double beta_;
};

/// Area under the curve of binary predictions, approximated at evenly spaced thresholds, as in Keras's AUC.
/// The ROC area is exact if all predictions lie on the grid of thresholds. Otherwise the error is at most the
/// change that moving the predictions to the grid would cause.
class AreaUnderCurve : public Metric {
 public:
  enum class Curve {
    kRoc,              // true over false positive rate, by trapezoids
    kPrecisionRecall,  // interpolated by Davis and Goadrich (ICML 2006)
  };
  /// Throws kInvalidArgument unless thresholds >= 3: one below 0, one above 1, the others evenly between.
  explicit AreaUnderCurve(Curve curve = Curve::kRoc, int64_t thresholds = 200);
  /// prediction: (N, ...), probabilities; target: the same shape, 0 or 1, any dtype. Throws kShapeMismatch,
  /// and, when it runs, kOutOfRange for a prediction that is NaN or outside [0, 1] (by more than rounding).
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
  double result() const override;

 private:
  Curve curve_;
  int64_t thresholds_;
};

}  // namespace isochron::nn
