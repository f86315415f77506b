// How a fit detects NaN and infinity, and finds the op that produced them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "isochron/train/checkpoints/finite_snapshot.h"
#include "isochron/train/loop/fit_callbacks.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::train {

/// Every look throws kNotANumber for the first number that isn't finite, unless a callback handles it; later
/// looks do nothing.
class Trainer::NumericsCheck {
 public:
  /// All arguments must outlive it.
  NumericsCheck(Trainer& trainer, data::Dataset& dataset, RunState& run, FitCallbacks& callbacks,
                observe::Recorder* recorder)
      : trainer_(trainer), dataset_(dataset), run_(run), callbacks_(callbacks), recorder_(recorder) {}

  /// From now on, checks those of `variables` that are finite at this call; they must outlive this object.
  void watch(const NamedVariables& variables) { watch_.emplace(variables); }
  /// Also keeps the last finite state, so that the op can be found. `data` returns Dataset::state(), or an
  /// empty string before the first batch. Call this after `watch`, for the same variables.
  void keep_snapshots(const NamedVariables& variables, std::function<std::string()> data);
  bool keeps_snapshots() const { return snapshot_.has_value(); }
  /// Whether another snapshot is worth its cost now.
  bool snapshot_due() const { return snapshot_ && snapshot_->due(); }

  void look_at_loss();
  void look_at_variables();
  /// Like look_at_variables, but keeps a snapshot if everything is finite.
  void take_snapshot();
  bool found() const { return found_; }

 private:
  void report(int64_t step, const std::string& what);
  void report_variables(const std::string& what);
  std::string find_origin();
  std::string replay();
  std::string origin_in(const data::Element& batch);

  Trainer& trainer_;
  data::Dataset& dataset_;
  RunState& run_;
  FitCallbacks& callbacks_;
  observe::Recorder* recorder_;
  const NamedVariables* variables_ = nullptr;  // of the snapshot
  std::function<std::string()> data_;
  std::optional<FiniteWatch> watch_;
  std::optional<FiniteSnapshot> snapshot_;
  bool found_ = false;
};

}  // namespace isochron::train
