// Metrics of classifiers that aren't means: precision, recall, F-score, and the areas under the curves that a
// moving threshold draws. In constant memory, like nn/losses/metrics.h.
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/nn/losses/metrics.h"

namespace isochron::nn {

/// How one number comes of several classes.
enum class Average {
  kMacro,     // the mean over the classes that occurred in targets or predictions, as in scikit-learn
  kMicro,     // of the counts of all classes together
  kWeighted,  // the mean over classes, weighted by how often they occurred in the targets
};

struct ClassMetricOptions {
  /// 0: yes or no for each element; the one class is "yes". Otherwise scores of so many classes a row.
  int64_t classes = 0;
  /// Of yes or no: yes is prediction > threshold.
  double threshold = 0.5;
  Average average = Average::kMacro;
};

/// Counts of each class: how often it was predicted, how often it was so, how often both.
class ClassMetric : public Metric {
 public:
  /// Yes or no: prediction (N, ...) and target, 0 or 1 of any dtype, of the same shape. Classes: scores
  /// (N, ..., classes), of which the largest is predicted, and labels (N, ...), i32 or i64. Throws
  /// kShapeMismatch, kDtypeMismatch; when run, kOutOfRange for a label outside the classes.
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
  double result() const override;
  /// Of each class alone; 0 where nothing is divided by nothing.
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

/// Of what was predicted, the share that was so.
class Precision : public ClassMetric {
 public:
  explicit Precision(const ClassMetricOptions& options = {}) : ClassMetric(options) {}

 private:
  double of(const Counts& counts) const override;
};

/// Of what was so, the share that was predicted.
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

/// Area under the curve of yes-or-no predictions, approximated at evenly spaced thresholds: Keras's AUC.
/// Exact for ROC when predictions lie on the thresholds' grid; else it errs by at most what moving them to
/// the grid changes.
class AreaUnderCurve : public Metric {
 public:
  enum class Curve {
    kRoc,              // true over false positive rate, by trapezoids
    kPrecisionRecall,  // interpolated by Davis and Goadrich (ICML 2006)
  };
  /// Throws kInvalidArgument unless thresholds >= 3: one below 0, one above 1, the others evenly between.
  explicit AreaUnderCurve(Curve curve = Curve::kRoc, int64_t thresholds = 200);
  /// prediction: (N, ...), probabilities; target: the same shape, 0 or 1 of any dtype. Throws kShapeMismatch;
  /// when run, kOutOfRange for a prediction outside [0, 1] (by more than rounding) or NaN.
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
  double result() const override;

 private:
  Curve curve_;
  int64_t thresholds_;
};

}  // namespace isochron::nn
