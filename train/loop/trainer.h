// Trainer: the loop around a captured step. Everything that a batch needs (forward, backward, update, loss
// and metrics) is captured and planned for all signatures of the data before step one, so the partial last
// batch costs no spike; a step allocates nothing; loss and metrics stay on the device.
//
//   train::Trainer trainer(model, nn::mean_squared_error, optimizer);
//   const train::History history = trainer.fit(batches, {.epochs = 10, .validation_data = validation});
//   const train::Results results = trainer.evaluate(test);
//
// The host reads the loss at the end of an epoch and at every `report_every`th step. Only at these points
// can a callback react, or a loss that isn't finite be detected.
#pragma once

#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/observe/record/recorder.h"
#include "isochron/observe/record/trace.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/callbacks/results.h"
#include "isochron/train/loop/batch_functions.h"
#include "isochron/train/loop/batch_plan.h"

namespace isochron::train {

/// A dataset of batches, not owned: what fit, evaluate and predict take.
class Batches {
 public:
  Batches(data::Dataset& dataset) : dataset_(&dataset) {}
  template <size_t N>
  Batches(data::TupleDataset<N>& dataset) : dataset_(&dataset.elements()) {}
  data::Dataset& dataset() const { return *dataset_; }

 private:
  data::Dataset* dataset_;
};

struct FitOptions {
  int epochs = 1;         // the number of the last epoch, from 1
  int initial_epoch = 0;  // epochs already completed; set automatically on resume
  /// Ends each epoch after this number of batches. The next epoch continues after them, and from the start
  /// of the data when there are no more. 0: an epoch is one pass.
  int64_t steps_per_epoch = 0;
  /// Steps per call of the inner loop: callbacks, signals and the clock are checked once per call, and one
  /// call is one iteration of the recorder. Values above 1 cut the loop's overhead when a step takes
  /// microseconds.
  int64_t steps_per_call = 1;
  std::optional<Batches> validation_data = {};
  int validation_frequency = 1;           // evaluate after every so many epochs
  std::vector<Callback*> callbacks = {};  // the same on all ranks that train together
  /// Records this fit. One iteration is one call of `steps_per_call` steps, with the phases data_wait,
  /// compute, callbacks, checkpoint and log, and with ranks communication and rank_wait. Step classes: 0: a
  /// normal iteration; 1: one with a partial batch, or cut short by the end of an epoch or of a pass; 2: with
  /// gradient accumulation, one that updates more often than the others. The recorder is sealed after the
  /// first epoch if more epochs follow and it isn't sealed yet.
  observe::Recorder* recorder = nullptr;
  /// Called after every iteration of the recorder, outside of it; with no recorder after every call of
  /// `steps_per_call` steps. What it throws ends the training.
  std::function<void()> after_iteration = {};
  /// Throws kSealed if fetching, training or reading the loss creates anything after warm-up
  /// (core/telemetry/sealed.h). It is thrown at the end of the first such iteration, with the stack of its
  /// creation. Warm-up is the first epoch of this process or, if there is no other epoch, its first
  /// `report_every` steps. Callbacks, logs and checkpoints are counted separately.
  bool enforce_sealed = false;
  /// Records a trace of steps [first, last] of this fit, counted from 1 and rounded to whole calls of
  /// `steps_per_call`. Tracing costs time (observe/record/trace.h). With `warm_up` the traced steps are
  /// excluded from what FitOptions::recorder measures: in a fit of one epoch the recorder is sealed after
  /// them; in a longer fit the first epoch is warm-up in any case, and tracing ends with it at the latest.
  struct TracedSteps {
    observe::TraceRecorder* recorder = nullptr;  // must outlive the fit
    int64_t first = 1;
    int64_t last = 0;
    bool warm_up = false;
  };
  TracedSteps traced = {};
  /// Steps between reads by the host: on_batch_end, check for NaN. Counted within the epoch, so epochs with
  /// fewer steps are only read at their end. If these steps take seconds, one process also reads results in
  /// between, about once a second, for the progress line and Callback::on_progress.
  int64_t report_every = 100;
  /// If a loss, a parameter or the optimizer's state becomes NaN or infinite, find the op that produced it.
  /// The trainer keeps a finite copy of the state in memory and refreshes it now and then (at most 0.5 % of
  /// the time; it takes the bytes of all variables once). On failure it restores that copy, runs the steps
  /// since then again, and checks every result of the failing step. Needs BatchFunctions::weights.
  bool trace_not_finite = true;
  /// Settings of the run that can't be read from model and data (batch size, seed, optimizer, ...). They are
  /// saved with checkpoints. Resuming under different settings throws kInvalidArgument and lists the
  /// differences; for settings that are only `noted`, it reports the difference and goes on.
  struct Setting {
    std::string name, value;
    bool noted = false;
  };
  std::vector<Setting> settings = {};
  /// SIGINT, SIGTERM or SIGHUP ends the training in good order after the present step: callbacks save if
  /// they should, on_train_end is called, and History::stopped reports the signal. A second signal ends the
  /// process.
  bool finish_on_signals = false;
  /// Prints one line per epoch, and one if a run is resumed or ends before its last epoch; null: none. With
  /// several ranks, only the first prints.
  std::FILE* progress = stdout;
  bool epoch_lines = true;  // false: prints only the other lines
};

/// Trains, evaluates and predicts, one call at a time: while one runs, calls from other threads throw
/// kInvalidArgument. Callbacks may evaluate and predict.
class Trainer {
 public:
  /// For any step: see BatchFunctions. Moves the sums of the metrics and the default generator to the
  /// device. Throws kInvalidArgument for metrics without a name or object, and if the sums or the generator
  /// are in use elsewhere.
  explicit Trainer(BatchFunctions functions);
  /// supervised(model, loss, optimizer, metrics, weighting).
  Trainer(nn::Module& model, Loss loss, optim::Optimizer& optimizer, std::vector<NamedMetric> metrics = {},
          SampleWeighting weighting = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains. May be called again, with the same or other data; training then continues from the present
  /// state. Throws kInvalidArgument for options out of range, kNotANumber naming epoch and step when a loss
  /// or a parameter isn't finite (unless a callback deals with it), and whatever planning, data and callbacks
  /// throw; then every parameter is as the last full step left it.
  ///
  /// Several ranks (the group of the optimizer) divide the batches. Each rank updates its own averages over
  /// batches, such as those of batch normalization (BatchFunctions::averages). They are replaced on every
  /// rank by the mean over all ranks at the end of every epoch, before validation, and before a checkpoint is
  /// saved. Throws kUnsupported if the train step exchanges more than gradients, like a synchronized batch
  /// norm, and the ranks would have different numbers of batches.
  ///
  /// If a callback resumes (ModelCheckpoint, BackupAndRestore), everything is restored before the first step:
  /// variables, random numbers, data order, the callbacks' states, the losses of the epoch so far, the
  /// history. K steps, a new process and N - K more steps then give the same bits as N steps, with the
  /// recorded choices of kernels. Also throws like Checkpoint::restore; no variable is then changed.
  History fit(Batches data, const FitOptions& options = {});
  /// Runs one step on one batch and returns its loss and metrics. Plans the step when it sees a signature for
  /// the first time.
  Results train_on_batch(const data::Element& batch);
  /// Mean loss and metrics over one pass; changes no parameter. Throws kInvalidArgument for endless data.
  Results evaluate(Batches data);
  /// The predictions of one pass, in its order: (rows, ...). Throws like `evaluate`, and kShapeMismatch if a
  /// batch doesn't give one prediction per row, or if predictions of different batches differ in more than
  /// their number of rows.
  Tensor predict(Batches data);

  /// The captured train step, for its plans and traces.
  const CapturedFunction& step() const { return train_.captured(); }

 private:
  class Fit;
  class NumericsCheck;
  class CallScope;

  CaptureOptions capture_options() const;
  BatchPlan::Function counted(BatchFunction function);
  void run_evaluation(data::Dataset& dataset);
  void reset_tallies();
  /// The optimizer if it accumulates micro-batches; otherwise null.
  optim::Optimizer* accumulating() const;
  /// Whether step `step` is the last of an epoch and micro-batches are accumulated: that step updates in any
  /// case.
  bool flush_last(int64_t step, int64_t steps_per_epoch);
  void read_tallies(Results& results, const std::string& prefix) const;

  /// The sums of loss and metrics.
  NamedVariables tallies() const;

  BatchFunctions functions_;
  LossTally loss_;
  BatchPlan train_;
  BatchPlan evaluate_;
  BatchPlan predict_;
  std::atomic<std::thread::id> caller_{};  // of the thread whose call runs; the default: none
};

}  // namespace isochron::train
