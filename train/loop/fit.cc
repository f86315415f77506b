#include "isochron/train/loop/fit.h"

#include <algorithm>
#include <csignal>
#include <exception>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/stop_signals.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/core/telemetry/trace.h"
#include "isochron/train/loop/fit_phase.h"

namespace isochron::train {
namespace {

using observe::Phase;

/// If reading fails, the dataset's position no longer matches that of the training.
constexpr std::string_view kReading = "reading data";
constexpr const char* kPrinting = "printing progress";
/// The interval between displays of the results if `report_every` steps take longer than this.
constexpr int64_t kShowEveryNs = 1'000'000'000;

constinit TraceLabel kStep(TraceCategory::kStep, "step");

/// Measures how long this rank waits for its input, and reports that to the other ranks.
class InputTime {
 public:
  explicit InputTime(DataParallel* parallel)
      : parallel_(parallel != nullptr && parallel->ranks() > 1 ? parallel : nullptr),
        began_ns_(parallel_ != nullptr ? now_ns() : 0) {}
  InputTime(const InputTime&) = delete;
  InputTime& operator=(const InputTime&) = delete;
  ~InputTime() {
    if (parallel_ != nullptr) parallel_->add_input(now_ns() - began_ns_);
  }

 private:
  DataParallel* parallel_;
  int64_t began_ns_;
};

RunState initial_state(const data::Dataset& dataset, const FitOptions& options,
                       const DataParallel* parallel) {
  RunState run;
  run.epoch = options.initial_epoch;
  run.epochs = options.epochs;
  if (parallel != nullptr) {
    run.steps_per_epoch = parallel->own_steps();
    run.rank = parallel->rank();
    run.ranks = parallel->ranks();
  } else {
    run.steps_per_epoch =
        options.steps_per_epoch > 0 ? options.steps_per_epoch : std::max<int64_t>(dataset.size(), 0);
  }
  return run;
}

}  // namespace

Trainer::Fit::Fit(Trainer& trainer, data::Dataset& dataset, const FitOptions& options, DataParallel* parallel)
    : trainer_(trainer),
      dataset_(dataset),
      parallel_(parallel),
      activity_(parallel != nullptr ? &parallel->activity() : nullptr),
      options_(options),
      recorder_(options.recorder),
      fresh_recorder_(recorder_ != nullptr &&
                      recorder_->totals().iterations + recorder_->totals().warmup_iterations == 0),
      full_(dataset.signatures().front()),
      progress_(parallel == nullptr || parallel->rank() == 0 ? options.progress : nullptr,
                options.epoch_lines, full_[0].shape.rank() > 0 ? full_[0].shape[0] : 1),
      run_(initial_state(dataset, options, parallel)),
      callbacks_(options.callbacks, run_, recorder_, activity_),
      trace_(options.traced, options.steps_per_call),
      history_(options.epochs),
      counted_(options.steps_per_epoch > 0),
      numerics_(trainer, dataset, run_, callbacks_, recorder_) {
  run_.savable = this;
  run_.captured = &trainer.train_.captured();
  run_.step_ns = &durations_;
  read_results(results_);
  for (const auto& [name, value] : results_) run_.names.push_back(name);
  for (size_t i = 0; options.validation_data && i < trainer.functions_.metrics.size() + 1; ++i) {
    run_.names.push_back("val_" + run_.names[i]);
  }
}

History Trainer::Fit::run() {
  std::optional<StopSignals> signals;
  if (options_.finish_on_signals) signals.emplace();
  const std::optional<ResumedRun> resumed = find_resumed();
  prepare(resumed ? &*resumed : nullptr);
  run_.resumes = resumed.has_value();
  callbacks_.notify(&Callback::on_train_begin);
  check_what_is_saved();
  if (resumed) {
    resume(*resumed);
    trainer_.train_.prepare(dataset_);  // once more, if the plans don't fit the restored state
  } else if (optim::Optimizer* optimizer = trainer_.accumulating()) {
    optimizer->drop_micro_batches();  // of a fit that ended within an update
  }
  if (run_.ranks > 1) parallel_->agree(settings_of_all(), weights());
  if (parallel_ != nullptr) parallel_->begin_draws(trainer_.functions_.optimizer->phase());
  if (parallel_ != nullptr && recorder_ != nullptr) rank_record_.emplace(*recorder_, parallel_->group());
  first_epoch_ = run_.epoch + (epoch_done_ ? 1 : 0);
  // Planning is warm-up, and so is the first epoch if another follows.
  if (fresh_recorder_) seal_recorder();
  warm_ = first_epoch_ >= options_.epochs;
  watch_numbers();
  if (options_.enforce_sealed) memory_seal_.emplace();
  try {
    if (resumed) {
      callbacks_.finish_saves(resumed->document, epoch_done_ ? SavePoint::kEpoch : SavePoint::kStep);
    }
    adopt_stop_of_other_ranks();
    epochs();
  } catch (...) {
    trace_.stop();
    save_after_failure();
    throw;
  }
  trace_.stop();
  if (rank_record_) rank_record_->describe();
  std::exception_ptr failure;
  try {
    callbacks_.notify(&Callback::on_train_end);
  } catch (...) {
    failure = std::current_exception();  // only this rank's: the other ranks don't wait for it
  }
  // Waits until the first rank has written everything, before any rank continues.
  if (run_.ranks > 1) parallel_->group().barrier("the end of training");
  if (failure) std::rethrow_exception(failure);
  History history = history_.take();
  history.stopped = run_.stop_reason;
  if (run_.interrupted)
    history.interrupted_by = StopSignals::pending() != 0 ? StopSignals::pending() : SIGTERM;
  if (!run_.stop_reason.empty()) progress_.note("stopped: " + run_.stop_reason);
  return history;
}

void Trainer::Fit::watch_numbers() {
  if (!trainer_.functions_.weights) return;
  if (epoch_done_) trainer_.reset_tallies();  // of an earlier fit
  if (!options_.trace_not_finite) {
    watched_ = weights_and_slots();
    numerics_.watch(watched_);
    return;
  }
  numerics_.watch(variables());
  if (run_.ranks > 1) return;  // the other ranks would have to run steps again too
  numerics_.keep_snapshots(variables(), [this] { return at_ ? data_state() : std::string(); });
}

void Trainer::Fit::seal_recorder() {
  if (rank_record_) rank_record_->end_warmup();
  if (baseline_.empty()) return recorder_->seal();
  try {
    recorder_->seal_and_continue(baseline_);
  } catch (const Error& error) {
    emit(
        {EventKind::kNotice, "fit",
         fmt::format("the times before the restart are left out of the flatness verdict: {}", error.what())});
    baseline_.clear();
    recorder_->seal();
  }
}

void Trainer::Fit::epochs() {
  // An epoch that was stopped early is still ended properly, even if it was stopped before a resume.
  while (!epoch_done_ || (run_.stop_reason.empty() && run_.epoch < options_.epochs)) {
    if (epoch_done_) {
      begin_epoch();
      if (!run_.stop_reason.empty()) return;
    }
    epoch_began_ns_ = now();
    shown_ns_ = now_ns();
    reported_ = run_.step;
    if (const auto* optimizer = trainer_.accumulating()) summed_ = optimizer->phase();
    train_epoch();
    if (run_.interrupted) return;
    end_epoch();
    if (run_.stop_reason.empty() && stop_due()) interrupt();
  }
}

/// Whether a signal asks to stop. With several ranks: whether any rank was asked before the latest update.
bool Trainer::Fit::stop_due() {
  const bool pending = StopSignals::pending() != 0;
  return parallel_ != nullptr ? parallel_->stop_requested(pending) : pending;
}

void Trainer::Fit::begin_epoch() {
  half_done_ = "the start of an epoch";
  ++run_.epoch;
  run_.step = 0;
  epoch_done_ = false;
  seconds_before_ = 0;
  callbacks_.notify(&Callback::on_epoch_begin);
  adopt_stop_of_other_ranks();
  if (options_.traced.warm_up && run_.epoch > first_epoch_) trace_.stop();
  if (recorder_ != nullptr && run_.epoch == first_epoch_ + 1 && recorder_->totals().warmup_iterations == 0) {
    seal_recorder();
    warm_ = true;
  }
  trainer_.reset_tallies();
  results_ = {};  // those of the validation belong to the last epoch
  read_results(results_);
  durations_.clear();
  half_done_ = {};
}

void Trainer::Fit::train_epoch() {
  if (fetch_due_) fetch();
  const bool any = parallel_ == nullptr || parallel_->own_steps() > 0;
  // An epoch that is resumed from a checkpoint may already be at the end of its pass.
  if (any && (!at_ || (*at_ == std::default_sentinel && (counted_ || run_.step == 0)))) begin_data();
  if (any) train_steps();
  if (parallel_ == nullptr || !run_.stop_reason.empty()) return;
  if (parallel_->lacks_last_update()) {
    parallel_->update_without_batch();
    if (rank_record_) rank_record_->after_step();
  }
  run_.total_steps += parallel_->first_steps() - run_.step;
  run_.step = parallel_->first_steps();
}

void Trainer::Fit::train_steps() {
  while (*at_ != std::default_sentinel && run_.stop_reason.empty() && !counted_out()) {
    trace_.begin_call();
    run_iteration();
    const bool traced = trace_.end_call();
    if (traced && options_.traced.warm_up && first_epoch_ >= options_.epochs && fresh_recorder_)
      seal_recorder();
    if (run_.interrupted) return;
    if (counted_ && !counted_out() && *at_ == std::default_sentinel) begin_data();
  }
}

void Trainer::Fit::run_iteration() {
  const TraceSpan span(kStep, run_.total_steps + 1);
  resumed_data_.clear();
  if (recorder_ != nullptr) recorder_->begin_iteration();
  {
    const SealedSection section(enforced_seal());
    train_and_fetch();
  }
  if (recorder_ != nullptr) recorder_->end_iteration();
  // The dataset is now one batch ahead of the training, unless the epoch is over.
  if (!fetch_due_) half_done_ = "the change to the next batch";
  if (options_.after_iteration) options_.after_iteration();
  if (memory_seal_) memory_seal_->check("fit", run_.total_steps);
  half_done_ = {};
}

Seal* Trainer::Fit::enforced_seal() {
  if (!memory_seal_) return nullptr;
  const bool warm =
      run_.epoch > first_epoch_ || (options_.epochs <= first_epoch_ && run_.step >= options_.report_every);
  return warm ? &*memory_seal_ : nullptr;
}

/// One iteration: the steps of one call, then the fetch of the next batch. Checkpoints are saved between the
/// two, when the position of the dataset is still just after the last batch trained on.
void Trainer::Fit::train_and_fetch() {
  // The recorder may skip the timing of this iteration.
  const bool timed = recorder_ == nullptr || recorder_->timed();
  const int64_t began_ns = timed ? now_ns() : 0;
  int64_t steps = 0, updates = 0;
  bool partial = false;
  for (;;) {
    partial = partial || !(*at_)->has(full_);
    updates += train_step() ? 1 : 0;
    if (rank_record_) rank_record_->after_step();
    if (++steps == options_.steps_per_call || counted_out() || last_common_step()) break;
    fetch();
    if (*at_ == std::default_sentinel) break;
  }
  const int64_t trained_ns = timed ? now_ns() : 0;
  if (recorder_ != nullptr) recorder_->set_class(step_class(steps, updates, partial));
  // With several ranks, all must be at this step, and no update half done.
  const bool common = run_.ranks == 1 || (run_.step <= parallel_->common_steps() && summed_ == 0);
  if (common) {
    if (run_.step / options_.report_every != reported_ / options_.report_every) {
      report();
      shown_ns_ = timed ? trained_ns : now_ns();
    } else if (run_.ranks == 1 && timed && trained_ns - shown_ns_ >= kShowEveryNs) {
      show();  // several ranks would not do so at the same step
      shown_ns_ = trained_ns;
    }
    reported_ = run_.step;
    save(SavePoint::kStep);
  }
  // Before the fetch, while the dataset's position still matches that of the training.
  if (common && run_.stop_reason.empty() && stop_due()) interrupt();
  const int64_t saved_ns = timed ? now_ns() : 0;
  if (fetch_due_ && !counted_out() && !run_.interrupted) fetch();
  if (timed) {
    const int64_t ended_ns = now_ns();
    durations_.add((ended_ns - began_ns) / steps);
    progress_.add_step({.duration_ns = (trained_ns - began_ns + ended_ns - saved_ns) / steps,
                        .wait_ns = (ended_ns - saved_ns) / steps});
  }
}

/// 0: the usual call; 1: one with a partial batch, or cut short; 2: with accumulation, one that updates more
/// often than others.
int Trainer::Fit::step_class(int64_t steps, int64_t updates, bool partial) const {
  if (partial || steps < options_.steps_per_call) return 1;
  const optim::Optimizer* optimizer = trainer_.functions_.optimizer;
  return updates > 0 && updates > steps / optimizer->accumulate() ? 2 : 0;
}

/// Adds the step's number to errors after the first step, such as an index out of range in the data.
void Trainer::Fit::call_step() const {
  try {
    trainer_.train_.call(**at_);
  } catch (const Error& error) {
    if (run_.total_steps == 0 || error.code() == ErrorCode::kCommunication) throw;
    throw Error(error.code(), error.where(),
                fmt::format("{} (step {} of epoch {})", error.text(), run_.step + 1, run_.epoch));
  }
}

/// Returns whether the step updated the parameters, if micro-batches are accumulated; otherwise false.
bool Trainer::Fit::train_step() {
  const bool flushed = trainer_.flush_last(run_.step + 1, run_.steps_per_epoch);
  const OptionalPhase phase(recorder_, Phase::kCompute);
  half_done_ = "a step";
  if (activity_ != nullptr) activity_->set_step(run_.epoch, run_.step + 1);
  if (parallel_ != nullptr) parallel_->before_step(summed_);
  call_step();
  ++run_.step;
  ++run_.total_steps;
  trace_.add_step();
  fetch_due_ = true;
  half_done_ = {};
  const optim::Optimizer* optimizer = trainer_.accumulating();
  if (optimizer != nullptr) summed_ = flushed || summed_ + 1 == optimizer->accumulate() ? 0 : summed_ + 1;
  if (parallel_ != nullptr) parallel_->after_step(summed_);
  return optimizer != nullptr && summed_ == 0;
}

void Trainer::Fit::begin_data() {
  const OptionalPhase phase(recorder_, Phase::kDataWait);
  const InputTime time(parallel_);
  const comm::Doing doing(activity_, kReading.data());
  half_done_ = kReading;
  at_.emplace(dataset_.begin());
  resumed_data_.clear();
  require(*at_ != std::default_sentinel, ErrorCode::kInvalidArgument, "fit", "the data contain no batch");
  half_done_ = {};
}

void Trainer::Fit::fetch() {
  const OptionalPhase phase(recorder_, Phase::kDataWait);
  const InputTime time(parallel_);
  const comm::Doing doing(activity_, kReading.data());
  fetch_due_ = false;
  half_done_ = kReading;
  ++*at_;
  half_done_ = {};
}

void Trainer::Fit::read_results(Results& results) const {
  trainer_.read_tallies(results, "");
  const optim::Optimizer* optimizer = trainer_.functions_.optimizer;
  if (optimizer == nullptr || !optimizer->scales_loss()) return;
  results.set("loss_scale", optimizer->loss_scale());
  results.set("skipped_steps", static_cast<double>(optimizer->skipped_steps()));
}

/// Like read_results, but over all ranks; every rank must call it. All ranks therefore see a non-finite loss
/// at the same point and stop together.
void Trainer::Fit::read_results_of_all(Results& results) {
  std::optional<DataParallel::Merged> merged;
  if (parallel_ != nullptr) merged.emplace(*parallel_, tallies(), "results");
  numerics_.look_at_loss();
  read_results(results);
}

/// Emits a notice, once, if loss scaling skips one update after another and so hides that nothing is learned.
void Trainer::Fit::tell_skipped() {
  constexpr int64_t kMany = 8;  // more than it takes to find the scale
  const optim::Optimizer* optimizer = trainer_.functions_.optimizer;
  if (optimizer == nullptr || !optimizer->scales_loss() || updates_ < 0) return;
  const int64_t updates = optimizer->step_count(), skipped = optimizer->skipped_steps();
  if (updates != updates_) {
    updates_ = updates;
    skipped_ = skipped;
  } else if (skipped - skipped_ >= kMany) {
    emit(
        {EventKind::kNotice, "fit",
         fmt::format(
             "the last {} updates were skipped and none was made, because their gradients aren't finite, now "
             "at a loss scale of {:g}: the model learns nothing. Capture its step with check_numerics to "
             "find "
             "the op (graph/step/captured.h), or train in mixed_bf16 or f32",
             skipped - skipped_, optimizer->loss_scale())});
    updates_ = -1;
  }
}

/// If a callback of one rank ends the training, all ranks end it.
void Trainer::Fit::adopt_stop_of_other_ranks() {
  if (run_.ranks == 1) return;
  if (const std::optional<int> rank = parallel_->first_rank_with(!run_.stop_reason.empty()))
    run_.stop(fmt::format("a callback of rank {} has ended the training", *rank));
}

/// Reads results within an epoch, after every `report_every` steps.
void Trainer::Fit::report() {
  const bool ranks = run_.ranks > 1;
  if (ranks) {
    read_results_of_all(results_);
  } else {
    numerics_.look_at_loss();
  }
  if (numerics_.snapshot_due()) {
    const OptionalPhase phase(recorder_, Phase::kCallbacks, "numerics");
    numerics_.take_snapshot();
  }
  if (!callbacks_.empty()) {
    if (!ranks) read_results(results_);
    callbacks_.notify(&Callback::on_batch_end, results_);
  }
  adopt_stop_of_other_ranks();
  show_line();
}

/// Shows results between reports that are seconds apart.
void Trainer::Fit::show() {
  if (!callbacks_.empty()) {
    read_results(results_);
    callbacks_.notify(&Callback::on_progress, results_);
  }
  show_line();
}

void Trainer::Fit::show_line() {
  if (!progress_.due()) return;
  const OptionalPhase phase(recorder_, Phase::kLog, "progress");
  const comm::Doing doing(activity_, kPrinting);
  if (run_.ranks == 1) read_results(results_);
  progress_.update(run_, results_);
}

/// Averages the model's running statistics over all ranks, each of which has to call it.
void Trainer::Fit::merge_averages() {
  const BatchFunctions& functions = trainer_.functions_;
  if (run_.ranks == 1 || !functions.averages) return;
  const OptionalPhase phase(recorder_, Phase::kCheckpoint);
  parallel_->merge_averages(functions.averages());
}

void Trainer::Fit::validate(Results& results) {
  const comm::Doing doing(activity_, "validating");
  KeptVariables kept(tallies());
  kept.keep();
  try {
    callbacks_.begin_evaluation();
    data::Dataset& data = validation_ ? validation_->dataset : options_.validation_data->dataset();
    // Set by number, so that a resumed fit continues with the same epoch of the data as an uninterrupted
    // fit.
    data.set_epoch(static_cast<uint64_t>(run_.epoch / options_.validation_frequency - 1));
    trainer_.run_evaluation(data);
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    try {
      callbacks_.end_evaluation();
      kept.restore();
      half_done_ = {};  // the validation can be repeated
    } catch (const std::exception& error) {
      emit({EventKind::kNotice, "fit",
            fmt::format("after the validation failed, so did on_evaluation_end: {}", error.what())});
    }
    std::rethrow_exception(failure);
  }
  callbacks_.end_evaluation();
  {
    std::optional<DataParallel::Merged> merged;
    if (validation_) merged.emplace(*parallel_, tallies(), "validation results", validation_->divided);
    trainer_.read_tallies(results, "val_");
  }
  trainer_.reset_tallies();  // so that an infinite validation loss isn't taken for the training's
}

void Trainer::Fit::end_epoch() {
  EpochRecord record;
  record.seconds = seconds_before_ + static_cast<double>(now() - epoch_began_ns_) * 1e-9;
  record.epoch = run_.epoch;
  record.steps = run_.step;
  record.step_p50_ns = durations_.quantile(0.5);
  read_results_of_all(record.results);
  tell_skipped();
  const auto ends = [this] { return run_.epoch >= options_.epochs || !run_.stop_reason.empty(); };
  const bool looked = numerics_.snapshot_due() || (ends() && numerics_.keeps_snapshots());
  if (looked) numerics_.take_snapshot();
  half_done_ = "the end of an epoch";
  merge_averages();
  if (run_.ranks > 1) {
    const OptionalPhase phase(recorder_, Phase::kCheckpoint);
    parallel_->compare_weights(weights(), run_.epoch);
  }
  if (options_.validation_data && run_.epoch % options_.validation_frequency == 0) validate(record.results);
  callbacks_.notify(&Callback::on_epoch_end, record.results);
  adopt_stop_of_other_ranks();
  // The loss doesn't show whether the last update made variables non-finite. Several ranks skip this check,
  // because they would not all fail together.
  if (!looked && ends() && run_.ranks == 1) numerics_.look_at_variables();
  {
    const OptionalPhase phase(recorder_, Phase::kLog, "progress");
    const comm::Doing doing(activity_, kPrinting);
    progress_.finish(run_, record);
  }
  results_ = record.results;
  history_.add(record);
  epoch_done_ = true;
  half_done_ = {};
  save(SavePoint::kEpoch);
}

void Trainer::Fit::save(SavePoint point) {
  if (parallel_ != nullptr) parallel_->seek_draws(summed_);  // callbacks and the validation may have drawn
  std::optional<DataParallel::Merged> merged;                // checkpoints hold tallies of all ranks
  if (run_.ranks > 1 && (point != SavePoint::kStep || callbacks_.due_at_step())) {
    if (point != SavePoint::kEpoch) merge_averages();  // at an epoch's end they are merged
    merged.emplace(*parallel_, tallies(), "results for a checkpoint");
  }
  callbacks_.save(point);
}

void Trainer::Fit::interrupt() {
  const UnsealedScope ending;
  run_.interrupted = true;
  StopSignals::answer();
  save(SavePoint::kSignal);
  const int signal = StopSignals::pending();
  run_.stop(signal != 0 ? fmt::format("interrupted by {}", StopSignals::name(signal))
                        : std::string("interrupted by a signal to another rank"));
}

void Trainer::Fit::save_after_failure() noexcept {
  if (numerics_.found() || run_.ranks > 1) return;  // the other ranks don't know of it
  try {
    save(SavePoint::kException);
  } catch (const std::exception& error) {
    // The first failure is the one to report.
    emit({EventKind::kNotice, "checkpoint",
          fmt::format("nothing was saved after a failure: {}", error.what())});
  }
}

}  // namespace isochron::train
