// Trainer: the loop around a captured step. Everything that a batch needs (forward, backward, update, loss
// and metrics) is captured and planned for all signatures of the data before step one, so the odd last batch
// costs no spike; a step allocates nothing; loss and metrics stay on the device and are read once an epoch.
//
//   train::Trainer trainer(model, nn::mean_squared_error, optimizer);
//   const train::History history = trainer.fit(batches, {.epochs = 10, .validation_data = validation});
//   const train::Results results = trainer.evaluate(test);
//
// The host reads the loss at the end of an epoch and at every `report_every`th step; only there can a
// callback or a loss that isn't finite be noticed.
#pragma once

#include <cstdio>
#include <optional>
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
  int epochs = 1;         // the last one, from 1
  int initial_epoch = 0;  // epochs that count as done; a resumed run knows by itself
  /// Ends each epoch after so many batches; the next goes on where it ended, and from the start when there
  /// are no more. 0: an epoch is one pass.
  int64_t steps_per_epoch = 0;
  /// Steps between two looks of the host at callbacks, signals and the clock; then so many are one iteration
  /// of the recorder. Above 1 it saves the loop's own time where steps take microseconds.
  int64_t steps_per_call = 1;
  std::optional<Batches> validation_data = {};
  int validation_frequency = 1;           // evaluate after every so many epochs
  std::vector<Callback*> callbacks = {};  // the same on all ranks that train together
  /// Every call of `steps_per_call` steps is one iteration of it, with the phases data_wait, compute,
  /// callbacks, checkpoint and log. Classes: 0 the usual one, 1 one with an odd batch or cut short by the end
  /// of an epoch or of a pass, 2 where micro-batches are accumulated one that updates more often than others.
  /// Sealed after the first epoch if more follow and it was not yet.
  observe::Recorder* recorder = nullptr;
  /// Called after every iteration of the recorder, outside of it; with no recorder after every call of
  /// `steps_per_call` steps. What it throws ends the training.
  std::function<void()> after_iteration = {};
  /// After warm-up (the first epoch of this process; where there is no other, its first `report_every` steps)
  /// throws kSealed at the end of the first iteration in which fetching, training or reading the loss made
  /// anything (core/telemetry/sealed.h), with the stack of where. Callbacks, logs and checkpoints are counted
  /// apart.
  bool enforce_sealed = false;
  /// Which steps of this fit are recorded for a trace: from 1, both ends included, whole calls of
  /// `steps_per_call`. Tracing them costs time (observe/record/trace.h). As `warm_up` they are no part of
  /// what `recorder` has measured: where there is one epoch alone, it is sealed after them; where there are
  /// more, the first is warm-up anyway, and the recording ends with it.
  struct TracedSteps {
    observe::TraceRecorder* recorder = nullptr;  // must outlive the fit
    int64_t first = 1;
    int64_t last = 0;
    bool warm_up = false;
  };
  TracedSteps traced = {};
  int64_t report_every = 100;  // steps between reads of the host: on_batch_end, the look for NaN
  /// Where a loss, a parameter or the optimizer's state becomes NaN or infinite, says which op made it so:
  /// the last good state, looked at and kept in memory now and then (0.5 % of the time at most, once the
  /// bytes of all variables), is gone back to, the steps since are run again, and the one that did it with
  /// every result looked through. Needs BatchFunctions::weights.
  bool trace_not_finite = true;
  /// What the run is made of beside what can be seen of model and data (batch size, seed, optimizer, ...),
  /// saved with it: resuming under others throws kInvalidArgument listing the differences, or for those that
  /// are only `noted` says so.
  struct Setting {
    std::string name, value;
    bool noted = false;
  };
  std::vector<Setting> settings = {};
  /// SIGINT, SIGTERM or SIGHUP ends the training in good order after the present step: callbacks save what
  /// they are to save then, on_train_end is called, and History::stopped says so. A second signal ends the
  /// process.
  bool finish_on_signals = false;
  /// One line an epoch, and one where a run is resumed or ends before its last epoch; null: none. Of several
  /// ranks, the first prints them.
  std::FILE* progress = stdout;
  bool epoch_lines = true;  // false: only the other ones
};

class Trainer {
 public:
  /// Any step: see BatchFunctions. The sums of the metrics and the default generator move to the device.
  /// Throws kInvalidArgument for metrics without name or object, and where these are in use elsewhere.
  explicit Trainer(BatchFunctions functions);
  /// supervised(model, loss, optimizer, metrics, weighting).
  Trainer(nn::Module& model, Loss loss, optim::Optimizer& optimizer, std::vector<NamedMetric> metrics = {},
          SampleWeighting weighting = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains. May be called again, with the same or other data, and goes on from where it was. Throws
  /// kInvalidArgument for options out of range, kNotANumber naming epoch and step when a loss or a parameter
  /// isn't finite (unless a callback deals with it), and whatever planning, data and callbacks throw; then
  /// every parameter is as the last full step left it.
  ///
  /// Several ranks (the group of the optimizer) divide the batches. Averages over batches, such as batch
  /// normalisation's (BatchFunctions::averages), which each rank moves by its own, become the mean of all
  /// ranks' on each of them at the end of every epoch, before validation, and before a checkpoint. Throws
  /// kUnsupported where the train step exchanges more than gradients, as a synchronized batch norm does, and
  /// the ranks' numbers of batches would differ.
  ///
  /// Where a callback resumes (ModelCheckpoint, BackupAndRestore), everything is restored before the first
  /// step: variables, random numbers, data order, the callbacks' own states, the losses of the epoch so far,
  /// the history; N steps then equal K steps, a new process and N - K steps bit for bit, under the recorded
  /// choices of kernels. Throws then as Checkpoint::restore too, and no variable is
  /// changed.
  History fit(Batches data, const FitOptions& options = {});
  /// One step on one batch, planned at the first of its signature; gives its loss and metrics.
  Results train_on_batch(const data::Element& batch);
  /// Mean loss and metrics over one pass; changes no parameter. Throws kInvalidArgument for endless data.
  Results evaluate(Batches data);
  /// The predictions of one pass, in its order: (rows, ...). Throws as `evaluate`.
  Tensor predict(Batches data);

  /// The captured train step, for its plans and traces.
  const CapturedFunction& step() const { return train_.captured(); }

 private:
  class Fit;
  class NumericsCheck;

  CaptureOptions capture_options() const;
  BatchPlan::Function counted(BatchFunction function);
  void run_evaluation(data::Dataset& dataset);
  void reset_tallies();
  /// What updates, where micro-batches are accumulated; else null.
  optim::Optimizer* accumulating() const;
  /// Where micro-batches are accumulated, the last step of an epoch updates in any case: is step `step` that
  /// one?
  bool flush_last(int64_t step, int64_t steps_per_epoch);
  void read_tallies(Results& results, const std::string& prefix) const;

  /// The sums of loss and metrics.
  NamedVariables tallies() const;

  BatchFunctions functions_;
  LossTally loss_;
  BatchPlan train_;
  BatchPlan evaluate_;
  BatchPlan predict_;
};

}  // namespace isochron::train
