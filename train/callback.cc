#include "isochron/train/callback.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "isochron/core/error.h"
#include "isochron/graph/apply.h"

namespace isochron::train {

void LambdaCallback::on_train_begin(RunState& run) {
  if (functions_.on_train_begin) functions_.on_train_begin(run);
}
void LambdaCallback::on_epoch_begin(RunState& run) {
  if (functions_.on_epoch_begin) functions_.on_epoch_begin(run);
}
void LambdaCallback::on_batch_end(RunState& run, const Results& results) {
  if (functions_.on_batch_end) functions_.on_batch_end(run, results);
}
void LambdaCallback::on_epoch_end(RunState& run, const Results& results) {
  if (functions_.on_epoch_end) functions_.on_epoch_end(run, results);
}
void LambdaCallback::on_train_end(RunState& run) {
  if (functions_.on_train_end) functions_.on_train_end(run);
}

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  require(std::isfinite(options_.min_delta) && options_.min_delta >= 0, ErrorCode::kInvalidArgument,
          "early_stopping", "min_delta must be finite and >= 0, got {}", options_.min_delta);
  require(options_.patience >= 0, ErrorCode::kInvalidArgument, "early_stopping",
          "patience must be >= 0, got {}", options_.patience);
}

void EarlyStopping::on_train_begin(RunState& run) {
  require(std::find(run.names.begin(), run.names.end(), options_.monitor) != run.names.end(),
          ErrorCode::kInvalidArgument, "early_stopping", "nothing measured is called '{}'; there is {}{}",
          options_.monitor, fmt::join(run.names, ", "),
          options_.monitor.starts_with("val_") ? "; fit needs validation_data for it" : "");
  best_epoch_ = 0;
  waited_ = 0;
  kept_.clear();
}

void EarlyStopping::on_epoch_end(RunState& run, const Results& results) {
  const double* value = results.find(options_.monitor);
  if (value == nullptr) return;
  const double gain = options_.goal == Goal::kMin ? best_ - *value : *value - best_;
  if (!std::isnan(*value) && (best_epoch_ == 0 || gain > options_.min_delta)) {
    best_ = *value;
    best_epoch_ = run.epoch;
    waited_ = 0;
    keep();
    return;
  }
  if (++waited_ > options_.patience) {
    run.stop(best_epoch_ == 0 ? fmt::format("{} is not a number", options_.monitor)
                              : fmt::format("{} has not improved since epoch {} ({:.4g})", options_.monitor,
                                            best_epoch_, best_));
  }
}

void EarlyStopping::keep() {
  kept_.clear();
  if (options_.restore_best == nullptr) return;
  for (const std::vector<Variable>& variables :
       {options_.restore_best->parameters(), options_.restore_best->buffers()}) {
    for (const Variable& variable : variables) kept_.emplace_back(variable, graph::copy(variable.tensor()));
  }
}

void EarlyStopping::on_train_end(RunState&) {
  for (const auto& [variable, best] : kept_) variable.assign(best);
  kept_.clear();
}

void LearningRateScheduler::on_epoch_begin(RunState& run) {
  optimizer_.set_learning_rate(schedule_(run.epoch, optimizer_.learning_rate()));
}

bool TerminateOnNaN::on_not_a_number(RunState& run, int64_t step) {
  run.stop(fmt::format("the loss of step {} of epoch {} is not a finite number", step, run.epoch));
  return true;
}

}  // namespace isochron::train
