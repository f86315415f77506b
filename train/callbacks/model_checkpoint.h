// Callbacks that save a run and let it go on: ModelCheckpoint and BackupAndRestore, with Keras's names for
// their options.
//
//   train::ModelCheckpoint checkpoints({.filepath = "runs/cp-{epoch:04d}", .keep_last = 3, .resume = true});
//   trainer.fit(batches, {.epochs = 20, .callbacks = {&checkpoints}, .finish_on_signals = true});
//
// Killed at any moment and started again, this ends with the same weights, bit for bit, as a run that was
// never killed (docs/reproducibility.md says on which conditions).
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
  /// See checkpoint_path. Its folder is made where it is missing, and must not itself be a template.
  std::filesystem::path filepath = "checkpoints/cp-{epoch:04d}";
  /// A file that load_weights reads; nothing can be resumed from it. After an epoch that `monitor` chose, the
  /// weights are those with which it was measured, see SwapWeights.
  bool save_weights_only = false;

  // When; several may be given.
  int every_epochs = 1;      // 0: not by epochs
  int64_t every_steps = 0;   // of all epochs; 0: not by steps
  double every_minutes = 0;  // 0: not by time
  bool on_signal = true;     // at the end by a signal (FitOptions::finish_on_signals)
  /// At the end by an error, other than numbers that aren't finite: the state after the last full step. After
  /// one in the middle of a step, of the start or the end of an epoch (but for the validation itself), of
  /// reading data, or where the next batch is at hand (FitOptions::after_iteration, a seal), nothing is
  /// saved, and an event kNotice says so: no resumed run could go on right.
  bool on_exception = false;

  // Which are kept. What a file replaces is removed when it is whole, never before.
  int keep_last = 0;  // so many newest ones; 0: all
  std::string monitor = "val_loss";
  Mode mode = Mode::kMin;
  /// After epochs that improve `monitor` over the best one of all fits with this callback, as in Keras.
  bool save_best_only = false;
  int save_top_k = 0;  // after epochs among the k best of this fit by `monitor`, of which k are kept
  std::optional<double> initial_value_threshold = {};  // with save_best_only: improve this first

  /// Files are written while the training goes on. Every file that the template names is written: a save that
  /// comes while one is being written and another waits is held up until the latter is begun, unless it has
  /// the same path, or removes the other's file (keep_last, save_top_k). False: fit waits for each save,
  /// which needs no memory of its own.
  bool asynchronous = true;
  /// Go on from the newest whole checkpoint in the folder, if there is one.
  bool resume = false;
};

/// Saves by the options. Between the epochs' saves by `monitor` those by steps, minutes and signals go on.
class ModelCheckpoint : public Callback {
 public:
  /// Throws kInvalidArgument for options that contradict each other or are out of range.
  explicit ModelCheckpoint(ModelCheckpointOptions options = {});
  ~ModelCheckpoint() override;

  /// Throws kInvalidArgument when nothing is called `monitor`, or for a template that can't be formatted,
  /// kIo.
  void on_train_begin(RunState& run) override;
  /// Throws kIo, also for an earlier save that failed since.
  void on_save(RunState& run, SavePoint point) override;
  bool saves() const override { return true; }
  bool due_at_step(const RunState& run) const override {
    return options_.every_steps > 0 && run.total_steps >= next_step_;
  }
  /// Waits until all is written. Throws as `on_save`.
  void on_train_end(RunState& run) override;
  std::filesystem::path resume_from() override;
  std::string state() const override;
  void restore(const RunState& run, const std::string& state) override;
  std::string_view kind() const override { return "model_checkpoint"; }
  std::string settings() const override;

  /// Empty before the first: what saving has cost.
  CheckpointWriterStats stats() const;
  /// Returns once what was asked for is written. Throws what the writing threw.
  void flush();
  /// Files that keep_last or save_top_k count, oldest first; without either, of which nothing is ever
  /// removed, the newest one.
  std::vector<std::filesystem::path> files() const;

 protected:
  const ModelCheckpointOptions& options() const { return options_; }

 private:
  struct File {
    std::filesystem::path path;
    std::optional<double> value;  // of `monitor`, for save_top_k
  };
  bool due_at_epoch(RunState& run);
  void save(RunState& run, bool wait);
  std::filesystem::path path_of(const RunState& run, const Results& results) const;
  /// Moves those beyond keep_last and save_top_k from `files_` to `replaced_`.
  void take_replaced();
  void remove_replaced();

  ModelCheckpointOptions options_;
  std::filesystem::path folder_;
  std::unique_ptr<RunFolder> temporary_;  // outlives the writer
  std::unique_ptr<CheckpointWriter> writer_;
  CheckpointWriterStats stats_;  // of what was saved without one
  std::vector<File> files_;
  /// To be removed once the next file is whole, as long as they are there: saves that are coalesced, and
  /// processes that die, leave theirs to the next.
  std::vector<std::filesystem::path> replaced_;
  NamedBlobs blobs_;  // room for the next save's
  Best best_;
  std::optional<double> saved_value_;  // of `monitor` at the epoch's end that is being saved
  int64_t next_step_ = 0;
  int64_t next_ns_ = 0;
};

struct BackupAndRestoreOptions {
  int64_t save_freq = 0;          // steps; 0: every epoch
  bool delete_checkpoint = true;  // when the training is done
};
/// Keeps one checkpoint of a run in a folder of its own, goes on from it when there is one, and removes it
/// when the run is done.
class BackupAndRestore : public ModelCheckpoint {
 public:
  explicit BackupAndRestore(std::filesystem::path backup_dir, BackupAndRestoreOptions options = {});
  void on_train_end(RunState& run) override;
  std::string_view kind() const override { return "backup_and_restore"; }

 private:
  bool delete_;
};

}  // namespace isochron::train
