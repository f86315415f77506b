// Callbacks: what a program wants done at fixed points of Trainer::fit. They run between steps, on the host,
// in the recorder's phase `callbacks`, so their time and allocations never pass for the step's.
//
// Order: on_train_begin, then for each epoch on_epoch_begin, on_batch_end after every `report_every`th step,
// on_epoch_end (after the validation); last on_train_end. Several callbacks are called in the order given.
// What a callback throws ends the training; parameters are then as the last full step left them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "isochron/nn/module.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/results.h"

namespace isochron::train {

/// Where a run of Trainer::fit stands.
struct RunState {
  int epoch = 0;                   // the present one, from 1
  int epochs = 0;                  // asked for
  int64_t step = 0;                // steps done in the present epoch
  int64_t steps_per_epoch = 0;     // expected
  std::vector<std::string> names;  // of the results that an epoch may have
  std::string stop_reason;         // empty: go on

  /// Ends the training after the present step (from on_batch_end) or epoch. The first reason stands.
  void stop(std::string reason) {
    if (stop_reason.empty()) stop_reason = std::move(reason);
  }
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(RunState&) {}
  virtual void on_epoch_begin(RunState&) {}
  /// `results`: means over the epoch so far, read from the device for this call.
  virtual void on_batch_end(RunState&, const Results& /*results*/) {}
  /// `results`: the epoch's, with those of the validation under "val_...", when there was one.
  virtual void on_epoch_end(RunState&, const Results& /*results*/) {}
  virtual void on_train_end(RunState&) {}
  /// The loss of step `step` of the present epoch was not finite. True: dealt with, which ends the training
  /// in good order; otherwise fit throws kNotANumber.
  virtual bool on_not_a_number(RunState&, int64_t /*step*/) { return false; }
};

/// Functions in place of a class of one's own; empty ones are skipped.
class LambdaCallback : public Callback {
 public:
  struct Functions {
    std::function<void(RunState&)> on_train_begin = {};
    std::function<void(RunState&)> on_epoch_begin = {};
    std::function<void(RunState&, const Results&)> on_batch_end = {};
    std::function<void(RunState&, const Results&)> on_epoch_end = {};
    std::function<void(RunState&)> on_train_end = {};
  };
  explicit LambdaCallback(Functions functions) : functions_(std::move(functions)) {}

  void on_train_begin(RunState& run) override;
  void on_epoch_begin(RunState& run) override;
  void on_batch_end(RunState& run, const Results& results) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  void on_train_end(RunState& run) override;

 private:
  Functions functions_;
};

enum class Goal { kMin, kMax };

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  Goal goal = Goal::kMin;
  double min_delta = 0;  // a smaller improvement is none
  int patience = 0;      // epochs without improvement that are borne
  /// Parameters and buffers of this model get back their content of the best epoch when training ends. Must
  /// outlive the callback. Null: they stay as the last epoch left them.
  nn::Module* restore_best = nullptr;
};
/// Ends the training when `monitor` no longer improves. Epochs that don't measure it are passed over. NaN
/// is no improvement.
class EarlyStopping : public Callback {
 public:
  /// Throws kInvalidArgument for a negative or non-finite min_delta, a negative patience.
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  /// Throws kInvalidArgument when nothing of the run is called `monitor`.
  void on_train_begin(RunState& run) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  void on_train_end(RunState& run) override;

  /// From 1; 0 before any.
  int best_epoch() const { return best_epoch_; }
  double best() const { return best_; }

 private:
  void keep();

  EarlyStoppingOptions options_;
  double best_ = 0;
  int best_epoch_ = 0;
  int waited_ = 0;
  std::vector<std::pair<Variable, Tensor>> kept_;  // of restore_best, with the content of the best epoch
};

/// Sets the learning rate at the start of every epoch: rate = schedule(epoch from 1, present rate). It lives
/// in a slot, so nothing is captured again.
class LearningRateScheduler : public Callback {
 public:
  using Schedule = std::function<double(int epoch, double learning_rate)>;
  /// `optimizer` must outlive the callback.
  LearningRateScheduler(optim::Optimizer& optimizer, Schedule schedule)
      : optimizer_(optimizer), schedule_(std::move(schedule)) {}
  void on_epoch_begin(RunState& run) override;

 private:
  optim::Optimizer& optimizer_;
  Schedule schedule_;
};

/// Ends the training in good order, instead of an error, when the loss is no finite number.
class TerminateOnNaN : public Callback {
 public:
  bool on_not_a_number(RunState& run, int64_t step) override;
};

}  // namespace isochron::train
