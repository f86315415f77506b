// Callback: what a program wants done at fixed points of Trainer::fit. Callbacks run between steps, on the
// host, in the recorder's phase `callbacks` (saving in `checkpoint`), so their time and allocations never
// pass for the step's. Ready-made ones are in train/callbacks/callbacks.h and
// train/callbacks/model_checkpoint.h.
//
// Order: on_train_begin, then for each epoch on_epoch_begin, on_batch_end after every `report_every`th step,
// on_evaluation_begin and on_evaluation_end around the validation, on_epoch_end; last on_train_end. Several
// callbacks are called in the order given, but on_evaluation_end in reverse. on_save comes after all of them
// have seen the same point, so that what is saved is the state of all. What a callback throws ends the
// training; parameters are then as the last full step left them. on_evaluation_end is called after a
// validation that failed, too, of those whose on_evaluation_begin was done.
//
// Of several ranks that train together, each calls its own callbacks, but for those that only print or write
// (first_rank_only): these are called by the first rank alone.
//
// A callback that remembers something between its calls gives it in `state` (and `variables`) and takes it
// back in `restore`: a resumed run goes on as if it had never ended.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/telemetry/counters.h"
#include "isochron/observe/statistics/histogram.h"
#include "isochron/train/callbacks/results.h"
#include "isochron/train/checkpoints/checkpoint.h"

namespace isochron {
class CapturedFunction;
}

namespace isochron::train {

/// What a callback that saves may ask of the run.
class SavableRun {
 public:
  virtual ~SavableRun() = default;
  /// The model's. Throw kUnsupported when the trainer wasn't told of them (BatchFunctions::weights).
  virtual const NamedVariables& weights() = 0;
  /// The whole run's: weights, optimizer, tallies of the epoch, callbacks'.
  virtual const NamedVariables& variables() = 0;
  /// What goes with them as a checkpoint's document.
  virtual std::string document(bool weights_only) = 0;
  /// And the bytes beside it, unless only weights are saved. They take the place of what is in `blobs`, whose
  /// room is used again.
  virtual void blobs(NamedBlobs& blobs) = 0;
  /// Of the epoch so far; at its end with those of the validation.
  virtual const Results& results() = 0;
  /// Whether the losses of the epoch so far and all variables are finite, and a run resumed from what is
  /// there now would go on right; where a failure left it in the middle of something, an event kNotice says
  /// so. Throws kNotANumber, unless a callback deals with it.
  virtual bool worth_saving() = 0;
};

/// Where a run of Trainer::fit stands.
struct RunState {
  int epoch = 0;                // the present one, from 1
  int epochs = 0;               // asked for
  int64_t step = 0;             // steps done in the present epoch
  int64_t steps_per_epoch = 0;  // expected; 0: not known
  int64_t total_steps = 0;      // done in all epochs, those before a resume too
  int rank = 0;                 // of several that train together
  int ranks = 1;
  std::vector<std::string> names = {};  // of the results that an epoch may have
  std::string stop_reason = {};         // empty: go on
  std::string not_finite = {};          // what is NaN or infinite, and which op made it so
  bool interrupted = false;             // the end came by a signal: there is more to do
  bool best_restored = false;           // the weights are those of the best epoch, and stay so
  /// Each exchanges the weights for those of the validation, or, in reverse order, back; of callbacks such as
  /// SwapWeights, which add theirs in on_train_begin.
  std::vector<std::function<void()>> weight_swaps = {};
  SavableRun* savable = nullptr;                             // during a fit, as the next two
  const CapturedFunction* captured = nullptr;                // the train step, planned
  const observe::LogHistogram<uint32_t>* step_ns = nullptr;  // how long the epoch's steps took so far

  /// Ends the training after the present step (from on_batch_end) or epoch. The first reason stands.
  void stop(std::string reason) {
    if (stop_reason.empty()) stop_reason = std::move(reason);
  }
  /// Calls `use` while the weights are those that `monitor` was measured with: where it is of the validation
  /// ("val_..."), the exchanged ones.
  void with_weights_of(std::string_view monitor, const std::function<void()>& use) const;
};

/// When there is something to save.
enum class SavePoint {
  kStep,       // after a step; on_batch_end, if it was due, is done
  kEpoch,      // after an epoch, its validation and on_epoch_end
  kSignal,     // the training ends by a signal, within an epoch or between two
  kException,  // the training ends by an error other than numbers that aren't finite
};

class Callback {
 public:
  virtual ~Callback() = default;
  /// Of several ranks that train together, whether the first alone calls it: for what prints or writes files,
  /// which every rank would do alike. Not for what changes the training (ends it, sets the learning rate,
  /// exchanges weights) or resumes it, and not for what saves: all ranks must do that together. Asked at the
  /// start of a fit. Such a callback that ends the training has fit throw kUnsupported.
  virtual bool first_rank_only() const { return false; }
  /// Of a callback that all ranks call: what must be the same on all of them, in one line. It is compared
  /// before the first step.
  virtual std::string settings() const { return {}; }
  virtual void on_train_begin(RunState&) {}
  virtual void on_epoch_begin(RunState&) {}
  /// `results`: means over the epoch so far, read from the device for this call.
  virtual void on_batch_end(RunState&, const Results& /*results*/) {}
  virtual void on_evaluation_begin(RunState&) {}
  virtual void on_evaluation_end(RunState&) {}
  /// `results`: the epoch's, with those of the validation under "val_...", when there was one.
  virtual void on_epoch_end(RunState&, const Results& /*results*/) {}
  virtual void on_train_end(RunState&) {}
  /// After step `step` of the present epoch something was not finite: `RunState::not_finite`. True: dealt
  /// with, which ends the training in good order; otherwise fit throws kNotANumber.
  virtual bool on_not_a_number(RunState&, int64_t /*step*/) { return false; }

  /// Called after every step too: it must cost next to nothing unless it saves.
  virtual void on_save(RunState&, SavePoint) {}
  /// Whether what on_save does is writing checkpoints, whose time is told apart from the callbacks'. Of
  /// several ranks the first writes, while all have to call on_save, and tell by `due_at_step` whether it is
  /// to save after this step: what is saved is made by all.
  virtual bool saves() const { return false; }
  virtual bool due_at_step(const RunState&) const { return false; }
  /// A checkpoint that the run shall go on from, empty for none; asked before anything else. The first
  /// callback that has one decides.
  virtual std::filesystem::path resume_from() { return {}; }

  /// What `restore` needs to go on from here, UTF-8; small, for it is made at every save.
  virtual std::string state() const { return {}; }
  /// After on_train_begin and before the first step; variables have their contents only then, when every
  /// callback took its state. Throws kBadFormat for a text that no `state` gave; on_train_begin comes before
  /// the callback is used again.
  virtual void restore(const RunState&, const std::string& /*state*/) {}
  /// Larger state, saved as tensors under "callback/kind/name"; the same ones from on_train_begin on.
  virtual NamedVariables variables() const { return {}; }
  /// By which a saved state finds the callback again: "early_stopping".
  virtual std::string_view kind() const { return "callback"; }

 private:
  [[no_unique_address]] Counted<Counter::kHooks> counted_;  // those that pile up are seen
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
    std::function<std::string()> state = {};
    std::function<void(const std::string& state)> restore = {};
    bool first_rank_only = false;  // see Callback
  };
  explicit LambdaCallback(Functions functions) : functions_(std::move(functions)) {}

  bool first_rank_only() const override { return functions_.first_rank_only; }
  void on_train_begin(RunState& run) override;
  void on_epoch_begin(RunState& run) override;
  void on_batch_end(RunState& run, const Results& results) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  void on_train_end(RunState& run) override;
  std::string state() const override;
  void restore(const RunState& run, const std::string& state) override;
  std::string_view kind() const override { return "lambda"; }

 private:
  Functions functions_;
};

}  // namespace isochron::train
