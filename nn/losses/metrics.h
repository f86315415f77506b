// Metrics over any number of batches in constant memory: sums in f64 on the device. An `update` inside a
// captured step becomes part of the step. The host reads the sums only when `result` is called. Precision,
// recall, F-score and areas under curves are in nn/losses/class_metrics.h.
//
// If sample weights (N) are passed, each element counts with the weight of its sample; otherwise with weight
// 1.
#pragma once

#include <initializer_list>
#include <optional>
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

  /// The value over everything since the last reset; NaN if there were no updates. Throws kCaptureViolation
  /// in a capture.
  virtual double result() const = 0;
  /// Resets the state. Captured steps keep using the same addresses.
  void reset();
  const std::vector<Variable>& state() const { return state_; }
  /// Whether the state for two sets of samples together is the sum of the states for each set. Several ranks
  /// merge such states by adding them.
  virtual bool adds_up() const { return true; }

 protected:
  /// Sums of these names and shapes, 0 at first.
  explicit Metric(std::initializer_list<std::pair<std::string, Shape>> sums);
  Metric(Metric&&) = default;
  Metric& operator=(Metric&&) = default;

  /// The numbers in sum `index`, on the CPU, valid until the next update. If they are kept on the CPU,
  /// reading them allocates nothing. Throws kCaptureViolation in a capture.
  Tensor sum_of(size_t index) const;
  /// Adds `amount` to sum `index`, which has the same shape.
  void add_to(size_t index, const Tensor& amount) const;

 private:
  std::vector<Variable> state_;  // f64
};

/// Sample weights (N) in f64 as (N, 1, ...) for elements of `shape`, (N, ...); all 1 if undefined. Throws
/// kShapeMismatch naming `metric`.
Tensor weight_column(const Tensor& sample_weights, const Shape& shape, std::string_view metric);

/// A (weighted) mean of numbers.
class MeanMetric : public Metric {
 public:
  double result() const override;

 protected:
  enum class Finish { kMean, kRootOfMean };
  explicit MeanMetric(Finish finish = Finish::kMean);
  /// Adds `values` of any shape; of shape (N, ...) if weights are given. Throws kShapeMismatch.
  void add(const Tensor& values, const Tensor& sample_weights);
  /// Adds values that each have a weight, of the same shape.
  void add_weighted(const Tensor& values, const Tensor& weights);

 private:
  Finish finish_;
};

/// The mean of all elements given, such as losses.
class Mean : public MeanMetric {
 public:
  void update(const Tensor& values, const Tensor& sample_weights = {}) { add(values, sample_weights); }
};

/// The share of elements that are classified correctly: prediction > threshold if the target is 1, and not >
/// threshold if it is 0. prediction (probabilities): (N, ...), target: the same shape, any dtype.
class BinaryAccuracy : public MeanMetric {
 public:
  explicit BinaryAccuracy(double threshold = 0.5) : threshold_(threshold) {}
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});

 private:
  double threshold_;
};

/// The share of rows whose largest score is the label's. scores (logits or probabilities): (N, ..., classes),
/// labels: (N, ...) i32 or i64. Rows with the label `ignore_index` don't count, as in the losses.
class SparseCategoricalAccuracy : public MeanMetric {
 public:
  explicit SparseCategoricalAccuracy(std::optional<int64_t> ignore_index = {}) : ignored_(ignore_index) {}
  /// Throws kShapeMismatch, kDtypeMismatch.
  void update(const Tensor& scores, const Tensor& labels, const Tensor& sample_weights = {});

 private:
  std::optional<int64_t> ignored_;
};
/// The same for target distributions (N, ..., classes); the class with the largest target is the label.
class CategoricalAccuracy : public MeanMetric {
 public:
  void update(const Tensor& scores, const Tensor& targets, const Tensor& sample_weights = {});
};

/// The share of rows in which the label's score is finite and fewer than k scores exceed it: Keras's
/// definition.
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
/// with a constant target counts as 1 if it is predicted without error and as 0 otherwise, as in
/// scikit-learn. The squared deviations of batches are merged (Chan et al., 1979), so a large mean costs no
/// precision.
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
