// Callback: code that runs at fixed points of Trainer::fit. Callbacks run between steps, on the host, in the
// recorder's phase `callbacks` (or `checkpoint` while saving), so their time and allocations don't count as
// the step's. Ready-made callbacks are in train/callbacks/callbacks.h and train/callbacks/model_checkpoint.h.
//
// Order: on_train_begin, then for each epoch on_epoch_begin, on_batch_end after every `report_every`th step
// (if that takes seconds, on_progress in between),
// on_evaluation_begin and on_evaluation_end around the validation, on_epoch_end; last on_train_end. Callbacks
// are called in the order given, except on_evaluation_end, which is called in reverse. on_save is called
// after all callbacks have been called at the same point, so that the state of all is saved. An exception
// from a callback ends the training; the parameters are then those after the last full step. If the
// validation fails, on_evaluation_end is still called for the callbacks whose on_evaluation_begin has
// returned.
//
// If several ranks train together, each calls its own callbacks, except those that only print or write
// (first_rank_only): only the first rank calls these.
//
// A callback that keeps something between calls returns it from `state` (and `variables`) and gets it back
// in `restore`: a resumed run continues as if it had never been interrupted.
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

/// What a callback that saves can get from the run.
class SavableRun {
 public:
  virtual ~SavableRun() = default;
  /// The variables of the model. Throws kUnsupported if the trainer doesn't know them
  /// (BatchFunctions::weights).
  virtual const NamedVariables& weights() = 0;
  /// The variables of the whole run: weights, optimizer, tallies of the epoch, callbacks' variables.
  virtual const NamedVariables& variables() = 0;
  /// The document to save with them in a checkpoint.
  virtual std::string document(bool weights_only) = 0;
  /// The bytes to save with the document, unless only weights are saved. Replaces the content of `blobs` and
  /// reuses its memory.
  virtual void blobs(NamedBlobs& blobs) = 0;
  /// The results of the epoch so far; at its end including those of the validation.
  virtual const Results& results() = 0;
  /// Whether the losses of the epoch so far and all variables are finite, and a run resumed from the present
  /// state would continue correctly. If a failure left the run in the middle of an operation, an event
  /// kNotice says so. Throws kNotANumber, unless a callback handles it.
  virtual bool worth_saving() = 0;
};

/// The state of a run of Trainer::fit.
struct RunState {
  int epoch = 0;                // the present one, from 1
  int epochs = 0;               // FitOptions::epochs
  int64_t step = 0;             // steps done in the present epoch
  int64_t steps_per_epoch = 0;  // expected; 0: not known
  int64_t total_steps = 0;      // done in all epochs, including those before a resume
  bool resumes = false;         // a callback has found a checkpoint, which is read after on_train_begin
  int rank = 0;                 // this process's rank, if several train together
  int ranks = 1;
  std::vector<std::string> names = {};  // of the results that an epoch may have
  std::string stop_reason = {};         // empty: training continues
  std::string not_finite = {};          // what is NaN or infinite, and which op made it so
  bool interrupted = false;             // a signal ended the training, so the run isn't complete
  bool best_restored = false;           // the weights are those of the best epoch, and stay so
  /// Functions that exchange the weights for those used in the validation. Called in reverse order, they
  /// exchange them back. Callbacks such as SwapWeights add their function in on_train_begin.
  std::vector<std::function<void()>> weight_swaps = {};
  SavableRun* savable = nullptr;                             // set during a fit, like the next two
  const CapturedFunction* captured = nullptr;                // the train step, planned
  const observe::LogHistogram<uint32_t>* step_ns = nullptr;  // how long the epoch's steps took so far

  /// Ends the training after the present step (from on_batch_end) or epoch. The first reason stands.
  void stop(std::string reason) {
    if (stop_reason.empty()) stop_reason = std::move(reason);
  }
  /// Calls `use` with the weights that `monitor` was measured with: the exchanged ones if it is a result of
  /// the validation ("val_...").
  void with_weights_of(std::string_view monitor, const std::function<void()>& use) const;
};

/// The point of a run at which on_save is called.
enum class SavePoint {
  kStep,       // after a step; on_batch_end, if it was due, is done
  kEpoch,      // after an epoch, its validation and on_epoch_end
  kSignal,     // the training ends by a signal, within an epoch or between two
  kException,  // the training ends by an error other than numbers that aren't finite
};

class Callback {
 public:
  virtual ~Callback() = default;
  /// Whether only the first of several ranks calls this callback: for callbacks that print or write files,
  /// because every rank would write the same. Not for callbacks that change the training (end it, set the
  /// learning rate, exchange weights), resume it or save: all ranks must call those together. Asked at the
  /// start of a fit. If such a callback ends the training, fit throws kUnsupported.
  virtual bool first_rank_only() const { return false; }
  /// For a callback that all ranks call: everything that must be the same on all ranks, in one line. It is
  /// compared before the first step.
  virtual std::string settings() const { return {}; }
  virtual void on_train_begin(RunState&) {}
  virtual void on_epoch_begin(RunState&) {}
  /// `results`: means over the epoch so far, read from the device for this call.
  virtual void on_batch_end(RunState&, const Results& /*results*/) {}
  /// Called between calls of on_batch_end, after a step that ends a second or more after the last call of
  /// either; only with a single process. It is for displays of the run: because it depends on the clock, it
  /// must not change the training.
  virtual void on_progress(RunState&, const Results& /*results*/) {}
  virtual void on_evaluation_begin(RunState&) {}
  virtual void on_evaluation_end(RunState&) {}
  /// `results`: those of the epoch, and those of the validation, if there was one, under "val_...".
  virtual void on_epoch_end(RunState&, const Results& /*results*/) {}
  virtual void on_train_end(RunState&) {}
  /// Called if a value isn't finite after step `step` of the present epoch (`RunState::not_finite`). Returns
  /// true if the callback handles it: the training then ends in good order. Otherwise fit throws
  /// kNotANumber.
  virtual bool on_not_a_number(RunState&, int64_t /*step*/) { return false; }

  /// Also called after every step, so it must cost next to nothing unless it saves.
  virtual void on_save(RunState&, SavePoint) {}
  /// Whether on_save writes checkpoints, whose time is counted separately from the callbacks' time. The
  /// first of several ranks writes, but all must call on_save because all contribute to what is saved.
  /// `due_at_step` returns whether on_save is going to save after this step.
  virtual bool saves() const { return false; }
  virtual bool due_at_step(const RunState&) const { return false; }
  /// The checkpoint from which the run should resume; empty for none. Asked before anything else. The first
  /// callback that has one decides.
  virtual std::filesystem::path resume_from() { return {}; }

  /// What `restore` needs to continue from here, as UTF-8; keep it small, because it is made at every save.
  virtual std::string state() const { return {}; }
  /// Called after on_train_begin and before the first step. Variables have their contents only after every
  /// callback has restored its state. Throws kBadFormat for a text that `state` didn't return; after that,
  /// on_train_begin is called before the callback is used again.
  virtual void restore(const RunState&, const std::string& /*state*/) {}
  /// Larger state, saved as tensors under "callback/kind/name". From on_train_begin on, it must return the
  /// same variables.
  virtual NamedVariables variables() const { return {}; }
  /// The name by which a saved state is assigned to the callback again: "early_stopping".
  virtual std::string_view kind() const { return "callback"; }

 private:
  [[no_unique_address]] Counted<Counter::kHooks> counted_;  // shows callbacks that accumulate
};

/// Functions instead of a custom class; empty ones are skipped.
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
    std::string kind = "lambda";   // see Callback; callbacks of the same kind are told apart by their order
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
  std::string_view kind() const override { return functions_.kind; }

 private:
  Functions functions_;
};

}  // namespace isochron::train
