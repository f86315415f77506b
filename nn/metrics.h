// Metrics over any number of batches in constant memory: a weighted total and a sum of weights, on the
// device. `update` inside a captured step belongs to the step; the host reads when `result` is called, and
// only then.
#pragma once

#include <string>
#include <vector>

#include "isochron/graph/variable.h"

namespace isochron::nn {

class Metric {
 public:
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;
  Metric(Metric&&) = default;
  Metric& operator=(Metric&&) = default;

  /// The mean over everything since the last reset; NaN when there was nothing. Throws kCaptureViolation in a
  /// capture.
  double result() const;
  /// Forgets everything. Captured steps go on with the same addresses.
  void reset();
  std::vector<Variable> state() const { return {total_, weight_}; }

 protected:
  enum class Finish { kMean, kRootOfMean };
  explicit Metric(Finish finish = Finish::kMean);
  /// Adds `values` of any shape, each weighted 1, or by its sample's weight: `weights` (N) for values
  /// (N, ...). Throws kShapeMismatch.
  void add(const Tensor& values, const Tensor& weights);

 private:
  Finish finish_;
  Variable total_;   // f64 ()
  Variable weight_;  // f64 ()
};

/// The mean of all elements given, such as losses.
class Mean : public Metric {
 public:
  void update(const Tensor& values, const Tensor& sample_weights = {}) { add(values, sample_weights); }
};

/// The share of rows whose largest score is the label's. scores (logits or probabilities): (N, classes),
/// labels: (N) i32 or i64.
class SparseCategoricalAccuracy : public Metric {
 public:
  /// Throws kShapeMismatch, kDtypeMismatch.
  void update(const Tensor& scores, const Tensor& labels, const Tensor& sample_weights = {});
};

/// prediction, target: one shape, (N, ...). Throw kShapeMismatch, kDtypeMismatch.
class MeanAbsoluteError : public Metric {
 public:
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
};
class RootMeanSquaredError : public Metric {
 public:
  RootMeanSquaredError() : Metric(Finish::kRootOfMean) {}
  void update(const Tensor& prediction, const Tensor& target, const Tensor& sample_weights = {});
};

}  // namespace isochron::nn
