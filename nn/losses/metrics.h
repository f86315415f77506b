// Metrics over any number of batches in constant memory: sums in f64 on the device. `update` inside a
// captured step belongs to the step; the host reads when `result` is called, and only then. Precision,
// recall, F-score and areas under curves are in nn/losses/class_metrics.h.
//
// Where sample weights (N) are taken, each element of a sample counts by its sample's weight; without, by 1.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/graph/capture/variable.h"

namespace isochron::nn {

class Metric {
 public:
  virtual ~Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

  /// The value over everything since the last reset; NaN when there was nothing. Throws kCaptureViolation in
  /// a capture.
  virtual double result() const = 0;
  /// Forgets everything. Captured steps go on with the same addresses.
  void reset();
  const std::vector<Variable>& state() const { return state_; }
  /// Whether the state over two sets of samples is the sum of theirs, by which several ranks merge it.
  virtual bool adds_up() const { return true; }

 protected:
  /// Sums of these names and shapes, 0 at first.
  explicit Metric(std::initializer_list<std::pair<std::string, Shape>> sums);
  Metric(Metric&&) = default;
  Metric& operator=(Metric&&) = default;

  /// The numbers in sum `index`, on the CPU, valid until the next update. Where they are kept on the CPU,
  /// reading them allocates nothing. Throws kCaptureViolation in a capture.
  Tensor sum_of(size_t index) const;
  /// Adds to sum `index`, whose shape `amount` has.
  void add_to(size_t index, const Tensor& amount) const;

 private:
  std::vector<Variable> state_;  // f64
};

/// Sample weights (N) in f64 as (N, 1, ...) for elements of `shape`, (N, ...); all 1 where undefined. Throws
/// kShapeMismatch naming `metric`.
Tensor weight_column(const Tensor& sample_weights, const Shape& shape, std::string_view metric);

/// A (weighted) mean of numbers.
class MeanMetric : public Metric {
 public:
  double result() const override;

 protected:
  enum class Finish { kMean, kRootOfMean };
  explicit MeanMetric(Finish finish = Finish::kMean);
  /// Adds `values` of any shape, (N, ...) where weights are given. Throws kShapeMismatch.
  void add(const Tensor& values, const Tensor& sample_weights);

 private:
  Finish finish_;
};

/// The mean of all elements given, such as losses.
class Mean : public MeanMetric {
 public:
  void update(const Tensor& values, const Tensor& sample_weights = {}) { add(values, sample_weights); }
};

/// The share of elements that are on the right side: prediction > threshold where the target is 1, not where
/// it is 0. prediction (probabilities): (N, ...), target: the same shape, any dtype.
class BinaryAccuracy : public MeanMetric {
 public:
  explicit BinaryAccuracy(double threshold = 0.5) : threshold_(threshold) {}
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});

 private:
  double threshold_;
};

/// The share of rows whose largest score is the label's. scores (logits or probabilities): (N, ..., classes),
/// labels: (N, ...) i32 or i64.
class SparseCategoricalAccuracy : public MeanMetric {
 public:
  /// Throws kShapeMismatch, kDtypeMismatch.
  void update(const Tensor& scores, const Tensor& labels, const Tensor& sample_weights = {});
};
/// The same against target distributions (N, ..., classes), of which the largest is the label.
class CategoricalAccuracy : public MeanMetric {
 public:
  void update(const Tensor& scores, const Tensor& targets, const Tensor& sample_weights = {});
};

/// The share of rows where fewer than k scores exceed the label's, which is finite: Keras's definition.
class SparseTopKCategoricalAccuracy : public MeanMetric {
 public:
  /// Throws kInvalidArgument unless k >= 1.
  explicit SparseTopKCategoricalAccuracy(int64_t k = 5);
  /// As SparseCategoricalAccuracy; when run, kOutOfRange for a label outside the classes.
  void update(const Tensor& scores, const Tensor& labels, const Tensor& sample_weights = {});

 private:
  int64_t k_;
};
class TopKCategoricalAccuracy : public SparseTopKCategoricalAccuracy {
 public:
  using SparseTopKCategoricalAccuracy::SparseTopKCategoricalAccuracy;
  void update(const Tensor& scores, const Tensor& targets, const Tensor& sample_weights = {});
};

/// prediction, target: one shape, (N, ...). Throw kShapeMismatch, kDtypeMismatch.
class MeanAbsoluteError : public MeanMetric {
 public:
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
};
class MeanSquaredError : public MeanMetric {
 public:
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
};
class RootMeanSquaredError : public MeanMetric {
 public:
  RootMeanSquaredError() : MeanMetric(Finish::kRootOfMean) {}
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
};

/// Coefficient of determination, 1 - sum (t - p)^2 / sum (t - mean t)^2, averaged over the outputs. An output
/// whose target is constant counts 1 where predicted without error, else 0, as in scikit-learn. The squared
/// deviations of batches are merged (Chan et al., 1979), so that a large mean costs no digits.
class R2Score : public Metric {
 public:
  /// Throws kInvalidArgument unless outputs >= 1.
  explicit R2Score(int64_t outputs = 1);
  /// prediction, target: (N, outputs), or (N) for one output. Throws kShapeMismatch.
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
  double result() const override;
  bool adds_up() const override { return false; }

 private:
  int64_t outputs_;
};

}  // namespace isochron::nn
