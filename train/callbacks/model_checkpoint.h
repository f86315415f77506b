// Callbacks that save a run and resume it: ModelCheckpoint and BackupAndRestore, with Keras's names for their
// options.
//
//   train::ModelCheckpoint checkpoints({.filepath = "runs/cp-{epoch:04d}", .keep_last = 3, .resume = true});
//   trainer.fit(batches, {.epochs = 20, .callbacks = {&checkpoints}, .finish_on_signals = true});
//
// If this program is killed at any moment and started again, it ends with the same weights, bit for bit, as a
// run that was never killed (docs/reproducibility.md lists the conditions).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isochron/core/files/run_folder.h"
#include "isochron/train/callbacks/callback.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/checkpoints/checkpoint_writer.h"

namespace isochron::train {

struct ModelCheckpointOptions {
  /// See checkpoint_path. Its folder is created if it is missing, and must not itself be a template. In the
  /// name of a file saved within an epoch, results of the validation are "nan".
  std::filesystem::path filepath = "checkpoints/cp-{epoch:04d}";
  /// Saves a file that load_weights reads; a run can't be resumed from it. If `monitor` selected the epoch,
  /// the weights are those with which it was measured, see SwapWeights.
  bool save_weights_only = false;

  // When to save; several of these may be given.
  int every_epochs = 1;      // 0: not by epochs
  int64_t every_steps = 0;   // of all epochs; 0: not by steps
  double every_minutes = 0;  // 0: not by time
  bool on_signal = true;     // at the end by a signal (FitOptions::finish_on_signals)
  /// Save when an error (other than non-finite numbers) ends the training: the state after the last full
  /// step. Nothing is saved, and an event kNotice says so, after an error in the middle of a step, at the
  /// start or end of an epoch (except in the validation itself), while reading data, or after the next batch
  /// was fetched (FitOptions::after_iteration, a seal): a run could not be resumed correctly from there.
  bool on_exception = false;

  // Which files are kept. A replaced file is removed only after the new file is complete.
  int keep_last = 0;  // the number of newest files to keep; 0: all
  std::string monitor = "val_loss";
  Mode mode = Mode::kAuto;
  /// Save only after epochs that improve `monitor` over the best of all fits with this callback, as in
  /// Keras.
  bool save_best_only = false;
  int save_top_k = 0;  // save after epochs among the k best of this fit by `monitor`, and keep k files
  std::optional<double> initial_value_threshold = {};  // with save_best_only: improve this first

  /// Write files in the background while training goes on. While one save is being written, at most one more
  /// waits. A third save blocks fit until the waiting one starts, unless it has the same path as the waiting
  /// save or would remove that save's file (keep_last, save_top_k): then it replaces the waiting save. All
  /// other files that the template names are written. False: fit waits for each save; saving then needs no
  /// extra memory.
  bool asynchronous = true;
  /// Resume from the newest complete checkpoint in the folder, if there is one. Without this option, a new
  /// run refuses a folder that contains checkpoints, unless the template names a single file or only weights
  /// are saved.
  bool resume = false;
};

/// Saves as the options say. Saves by steps, minutes and signals are also made between the epochs that
/// `monitor` selects.
class ModelCheckpoint : public Callback {
 public:
  /// Throws kInvalidArgument for options that contradict each other or are out of range.
  explicit ModelCheckpoint(ModelCheckpointOptions options = {});
  ~ModelCheckpoint() override;

  /// Throws kInvalidArgument if the run has no result called `monitor`, for a template that can't be
  /// formatted, and for a folder with checkpoints of an earlier run, unless `resume`; kUnsupported for saving
  /// by minutes with several ranks, whose clocks differ; kIo.
  void on_train_begin(RunState& run) override;
  /// Throws kIo, also for an earlier save that failed since.
  void on_save(RunState& run, SavePoint point) override;
  bool saves() const override { return true; }
  bool due_at_step(const RunState& run) const override {
    return options_.every_steps > 0 && run.total_steps >= next_step_;
  }
  /// Waits until all is written. Throws like `on_save`.
  void on_train_end(RunState& run) override;
  std::filesystem::path resume_from() override;
  std::string state() const override;
  void restore(const RunState& run, const std::string& state) override;
  std::string_view kind() const override { return "model_checkpoint"; }
  std::string settings() const override;

  /// The cost of saving so far; empty before the first save.
  CheckpointWriterStats stats() const;
  /// Waits until all requested saves are written. Throws the error of a failed write.
  void flush();
  /// The files that keep_last or save_top_k counts, oldest first. If neither is set, no file is ever
  /// removed, and this is only the newest one.
  std::vector<std::filesystem::path> files() const;

 protected:
  const ModelCheckpointOptions& options() const { return options_; }

 private:
  struct File {
    std::filesystem::path path;
    std::optional<double> value;  // of `monitor`, for save_top_k
  };
  bool due_at_epoch(RunState& run);
  void require_fresh_folder(const RunState& run) const;
  void save(RunState& run, bool wait);
  std::filesystem::path path_of(const RunState& run, const Results& results) const;
  /// Moves those beyond keep_last and save_top_k from `files_` to `replaced_`.
  void take_replaced();
  void remove_replaced();

  ModelCheckpointOptions options_;
  std::filesystem::path folder_;
  std::unique_ptr<RunFolder> temporary_;  // outlives the writer
  std::unique_ptr<CheckpointWriter> writer_;
  CheckpointWriterStats stats_;  // of saves made without a writer
  std::vector<File> files_;
  /// To be removed once the next file is complete, if they still exist. Coalesced saves, and processes that
  /// die, leave their replaced files to the next save.
  std::vector<std::filesystem::path> replaced_;
  std::pair<std::filesystem::path, int64_t> newest_;  // the newest save: its file and RunState::total_steps
  NamedBlobs blobs_;                                  // room for the next save's
  Best best_;
  std::optional<double> saved_value_;  // of `monitor`, if the end of an epoch is being saved
  bool began_ = false;                 // a fit with this callback
  int64_t next_step_ = 0;
  int64_t next_ns_ = 0;
};

struct BackupAndRestoreOptions {
  int64_t save_freq = 0;          // steps; 0: every epoch
  bool delete_checkpoint = true;  // when the training is complete
};
/// Keeps one checkpoint of a run in a separate folder, resumes from it if there is one, and removes it when
/// the run is complete.
class BackupAndRestore : public ModelCheckpoint {
 public:
  explicit BackupAndRestore(std::filesystem::path backup_dir, BackupAndRestoreOptions options = {});
  void on_train_end(RunState& run) override;
  std::string_view kind() const override { return "backup_and_restore"; }

 private:
  bool delete_;
};

}  // namespace isochron::train
