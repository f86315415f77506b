// One run of Trainer::fit: the loop (fit.cc), and what a fit saves and restores (fit_resume.cc). Its parts
// have separate files: callbacks, checks for non-finite numbers, the history, traced steps, and the
// checkpoint from which it resumes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/observe/statistics/histogram.h"
#include "isochron/train/callbacks/progress.h"
#include "isochron/train/loop/data_parallel.h"
#include "isochron/train/loop/fit_callbacks.h"
#include "isochron/train/loop/history_log.h"
#include "isochron/train/loop/numerics_check.h"
#include "isochron/train/loop/rank_record.h"
#include "isochron/train/loop/resumed_run.h"
#include "isochron/train/loop/step_trace.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::train {

class Trainer::Fit final : public SavableRun {
 public:
  /// `parallel`: null for a single process; otherwise `dataset` has this rank's batches.
  Fit(Trainer& trainer, data::Dataset& dataset, const FitOptions& options, DataParallel* parallel);
  History run();

  const NamedVariables& weights() override;
  const NamedVariables& variables() override;
  std::string document(bool weights_only) override;
  void blobs(NamedBlobs& blobs) override;
  const Results& results() override;
  bool worth_saving() override;

 private:
  std::optional<ResumedRun> find_resumed();
  void prepare(const ResumedRun* resumed);
  void check_what_is_saved();
  void tell_unsaved();
  void resume(const ResumedRun& resumed);
  /// The state of the dataset after the last batch that was trained on.
  std::string data_state() const;

  void watch_numbers();
  void seal_recorder();
  void epochs();
  void begin_epoch();
  void train_epoch();
  void train_steps();
  void run_iteration();
  void train_and_fetch();
  /// Null during warm-up, and if FitOptions::enforce_sealed isn't set.
  Seal* enforced_seal();
  int step_class(int64_t steps, int64_t updates, bool partial) const;
  bool train_step();
  void call_step() const;
  void begin_data();
  void fetch();
  void read_results(Results& results) const;
  void read_results_of_all(Results& results);
  void tell_skipped();
  NamedVariables weights_and_slots();
  const NamedVariables& tallies();
  void merge_averages();
  void adopt_stop_of_other_ranks();
  bool stop_due();
  const std::vector<FitOptions::Setting>& settings();
  std::vector<std::string> settings_of_all() const;
  void report();
  void show();
  void show_line();
  void validate(Results& results);
  void end_epoch();
  void save(SavePoint point);
  void interrupt();
  void save_after_failure() noexcept;

  /// The recorder's clock, which may stop while other ranks are running.
  int64_t now() const { return recorder_ != nullptr ? recorder_->options().clock() : now_ns(); }
  /// Whether this is the last step that all ranks have, after which ranks with fewer batches end their epoch.
  bool last_common_step() const { return run_.ranks > 1 && run_.step == parallel_->common_steps(); }
  /// Whether the epoch has reached FitOptions::steps_per_epoch.
  bool counted_out() const { return counted_ && run_.step >= run_.steps_per_epoch; }

  Trainer& trainer_;
  data::Dataset& dataset_;
  DataParallel* parallel_;
  comm::Activity* activity_;  // reported to other ranks; null: one process
  const FitOptions& options_;
  observe::Recorder* recorder_;
  bool fresh_recorder_;  // the recorder was empty when the fit began
  Signature full_;
  Progress progress_;
  RunState run_;
  FitCallbacks callbacks_;
  StepTrace trace_;
  HistoryLog history_;
  Results results_;         // those of the epoch so far
  bool epoch_done_ = true;  // the present epoch, and its validation
  /// The operation that is in progress, so that no run could be resumed from the present state; empty
  /// between full steps.
  std::string_view half_done_;
  int first_epoch_ = 0;   // of this process
  int64_t reported_ = 0;  // steps of the epoch up to the newest point at which a report could be due
  int64_t shown_ns_ = 0;  // when the newest results were shown
  std::vector<FitOptions::Setting> settings_;  // saved with checkpoints; see settings()
  std::string baseline_;                       // the recorder's, of an earlier process
  bool warm_ = false;          // the first epoch of this process is over, or there is no other
  double seconds_before_ = 0;  // of the epoch's steps in an earlier process
  int64_t epoch_began_ns_ = 0;
  observe::LogHistogram<uint32_t> durations_;
  bool counted_ = false;               // steps_per_epoch was given
  int64_t updates_ = 0, skipped_ = 0;  // under loss scaling: made and skipped when an update was last seen
  std::optional<data::Dataset::Iterator> at_;
  // The data state of a resumed run, used until its first step, because the iterator has already fetched the
  // next batch.
  std::string resumed_data_;
  /// The number of micro-batches already summed for the next update. Counted here, because reading the
  /// optimizer's count would wait for a device.
  int64_t summed_ = 0;
  bool fetch_due_ = false;  // the batch at `at_` has been trained on
  NamedVariables weights_, variables_, tallies_;
  NamedVariables watched_;  // for non-finite numbers, if their origin isn't traced
  NumericsCheck numerics_;
  std::optional<DataParallel::Part> validation_;  // this rank's
  std::optional<Seal> memory_seal_;               // if FitOptions::enforce_sealed is set
  std::optional<RankRecord> rank_record_;
};

}  // namespace isochron::train
