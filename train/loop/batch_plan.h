// A captured function of a batch, planned for every signature of a dataset before the first call. Also the
// tally of losses, which stays on the device between two reads by the host.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/graph/capture/settings.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/losses/metrics.h"
#include "isochron/train/loop/batch_functions.h"

namespace isochron::train {

/// The prefix of the names of a trainer's tally variables.
inline const std::string kOfLoss = "trainer/loss/";

/// Losses summed over batches, and the first one that was not finite. Updated inside a captured step, read
/// and reset between steps.
class LossTally {
 public:
  LossTally();
  /// Call this in a capture. `loss`: the mean over `rows` samples, a single floating number. Throws
  /// kShapeMismatch, kDtypeMismatch.
  void update(const Tensor& loss, int64_t rows);
  void reset();
  /// The mean over all samples since the reset.
  double mean() const { return mean_.result(); }
  /// The number, from 1, of the first batch since the reset whose loss is NaN or infinite; 0: none.
  int64_t first_not_finite() const { return first_not_finite_.tensor().item<int64_t>(); }
  /// Sets the number of batches since the reset.
  void set_batches(int64_t batches);
  /// Everything that a checkpoint must save.
  NamedVariables state() const;
  static constexpr std::string_view kBatches = "batches";
  static constexpr std::string_view kFirstNotFinite = "first_not_finite";

 private:
  nn::Mean mean_;
  Variable batches_;           // i64 ()
  Variable first_not_finite_;  // i64 (), 0 for none
};

class BatchPlan {
 public:
  using Function = std::function<std::vector<Tensor>(const data::Element& batch)>;

  enum class Names { kOfFirst, kAny };  // tensor names that later datasets may have

  /// `function` is traced under nn::TrainingScope(training). `name` replaces options.name.
  BatchPlan(std::string name, bool training, Function function, CaptureOptions options = {},
            Names names = Names::kOfFirst);
  BatchPlan(const BatchPlan&) = delete;
  BatchPlan& operator=(const BatchPlan&) = delete;

  /// Traces and plans the signatures of `dataset` that are new, for the names of its elements. Throws
  /// kInvalidArgument for names that differ from the first dataset's, unless any names are allowed, and
  /// always for the same names in another order. Later loops make batches in memory from which the plan's
  /// device copies asynchronously (Dataset::pin_memory).
  void prepare(data::Dataset& dataset);
  /// The same for the signature of one batch.
  void prepare(const data::Element& batch);
  /// Replays the plan. The signature of `batch` must have been prepared, with the names of the newest
  /// dataset.
  std::span<const Tensor> call(const data::Element& batch);
  const CapturedFunction& captured() const { return captured_; }

 private:
  std::vector<Tensor> trace(std::span<const Tensor> tensors) const;
  void choose_names(const std::vector<std::string>& names);

  std::string name_;
  bool training_;
  Names allowed_;
  Device device_;
  Function function_;
  std::vector<std::vector<std::string>> names_;  // of the elements of all datasets
  graph::Setting chosen_{0};                     // the present dataset's index in names_
  CapturedFunction captured_;
};

}  // namespace isochron::train
