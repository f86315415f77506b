// Ready-made callbacks, by the definitions of Keras 3 (keras.io/api/callbacks), with mostly its names for
// their options; epochs count from 1. Callbacks that save are in train/callbacks/model_checkpoint.h; the one
// for TensorBoard is in train/callbacks/tensor_board.h.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/nn/module/module.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/callbacks/callback.h"

namespace isochron::train {

/// Whether a smaller or a larger number is better. kAuto decides by words in the name of the monitored
/// result: smaller is better for "loss", "error", "mae", "perplexity" and the like, larger for "accuracy",
/// "auc", "f1", "iou" and the like.
enum class Mode { kAuto, kMin, kMax };
/// `mode`, or for kAuto the mode that the name suggests. Throws kInvalidArgument naming `where` if the name
/// suggests none.
Mode resolved_mode(Mode mode, std::string_view monitor, std::string_view where);

/// The best of a monitored number so far.
class Best {
 public:
  /// `mode`: not kAuto.
  explicit Best(Mode mode, double min_delta = 0) : mode_(mode), min_delta_(min_delta) {}
  /// Whether `value` is better than `reference` by more than min_delta. NaN is never better; any other value
  /// is better than NaN.
  bool improves(double value, double reference) const;
  /// Whether `value` is better than the best so far, or the first. NaN isn't.
  bool improves(double value) const;
  void set(double value) { value_ = value; }
  const std::optional<double>& value() const { return value_; }

 private:
  Mode mode_;
  double min_delta_;
  std::optional<double> value_;
};

/// Throws kInvalidArgument naming `where` if the run has no result called `monitor`.
void require_measured(const RunState& run, const std::string& monitor, std::string_view where);

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  Mode mode = Mode::kAuto;
  double min_delta = 0;                 // a smaller improvement doesn't count
  int patience = 0;                     // epochs without improvement after which training ends; 0 means 1
  std::optional<double> baseline = {};  // must be beaten too
  int start_from_epoch = 1;             // earlier epochs are ignored
  /// The model whose parameters and buffers are restored from the best epoch when training ends, with the
  /// weights with which `monitor` was measured (see SwapWeights). Must outlive the callback. Null: the model
  /// stays as the last epoch left it.
  nn::Module* restore_best = nullptr;
};
/// Ends the training when `monitor` no longer improves. Epochs that don't measure it are skipped. NaN is no
/// improvement.
class EarlyStopping : public Callback {
 public:
  /// Throws kInvalidArgument for a negative or non-finite min_delta, a negative patience, and like
  /// resolved_mode.
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  /// Throws kInvalidArgument if the run has no result called `monitor`.
  void on_train_begin(RunState& run) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  void on_train_end(RunState& run) override;
  std::string state() const override;
  void restore(const RunState& run, const std::string& state) override;
  NamedVariables variables() const override;
  std::string_view kind() const override { return "early_stopping"; }
  std::string settings() const override;

  /// From 1; 0 before any.
  int best_epoch() const { return best_epoch_; }
  double best() const { return best_.value().value_or(0); }

 private:
  void keep() const;

  struct Kept {
    std::string name;
    Variable variable;
    Variable best;  // with the content of the best epoch
  };
  EarlyStoppingOptions options_;
  Best best_;
  int best_epoch_ = 0;
  int waited_ = 0;
  std::vector<Kept> kept_;  // of restore_best
};

struct ReduceLearningRateOnPlateauOptions {
  std::string monitor = "val_loss";
  Mode mode = Mode::kAuto;
  double factor = 0.1;      // of the learning rate, in (0, 1)
  int patience = 10;        // epochs without improvement
  double min_delta = 1e-4;  // a smaller improvement doesn't count
  int cooldown = 0;         // epochs after a reduction that don't count
  double min_learning_rate = 0;
};
/// Multiplies the learning rate by `factor` when `monitor` no longer improves: Keras's ReduceLROnPlateau.
/// The rate is stored in a slot, so nothing is captured again.
class ReduceLearningRateOnPlateau : public Callback {
 public:
  /// `optimizer` must outlive the callback. Throws kInvalidArgument for options out of range,
  /// and like resolved_mode.
  explicit ReduceLearningRateOnPlateau(optim::Optimizer& optimizer,
                                       ReduceLearningRateOnPlateauOptions options = {});
  void on_train_begin(RunState& run) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  std::string state() const override;
  void restore(const RunState& run, const std::string& state) override;
  std::string_view kind() const override { return "reduce_learning_rate_on_plateau"; }
  std::string settings() const override;

 private:
  optim::Optimizer& optimizer_;
  ReduceLearningRateOnPlateauOptions options_;
  Best best_;
  int waited_ = 0;
  int cooling_ = 0;
};

/// Sets the learning rate at the start of every epoch: rate = schedule(epoch from 1, present rate). The rate
/// is stored in a slot, so nothing is captured again.
class LearningRateScheduler : public Callback {
 public:
  using Schedule = std::function<double(int epoch, double learning_rate)>;
  /// `optimizer` must outlive the callback.
  LearningRateScheduler(optim::Optimizer& optimizer, Schedule schedule)
      : optimizer_(optimizer), schedule_(std::move(schedule)) {}
  void on_epoch_begin(RunState& run) override;
  std::string_view kind() const override { return "learning_rate_scheduler"; }

 private:
  optim::Optimizer& optimizer_;
  Schedule schedule_;
};

/// Ends the training in good order, without an error, if the loss isn't finite.
class TerminateOnNaN : public Callback {
 public:
  bool on_not_a_number(RunState& run, int64_t step) override;
  std::string_view kind() const override { return "terminate_on_nan"; }
};

/// Exchanges the weights for others, such as their moving average, during the validation and again when the
/// training ends: Keras's SwapEMAWeights. If a result of the validation decides which epoch
/// is best, EarlyStopping's restore_best and a ModelCheckpoint that saves only weights keep the exchanged
/// weights. Weights that restore_best restores at the end aren't exchanged again.
class SwapWeights : public Callback {
 public:
  /// Exchanges the parameters for the averages that the optimizer keeps (StepOptions::ema_decay). With
  /// `keep_at_end`, the parameters are the averages after training.
  explicit SwapWeights(optim::Optimizer& optimizer, bool keep_at_end = true);
  /// `swap` exchanges in place, so that calling it twice changes nothing.
  explicit SwapWeights(std::function<void()> swap, bool keep_at_end = true)
      : swap_(std::move(swap)), keep_at_end_(keep_at_end) {}
  void on_train_begin(RunState& run) override { run.weight_swaps.push_back(swap_); }
  void on_evaluation_begin(RunState&) override { swap_(); }
  void on_evaluation_end(RunState&) override { swap_(); }
  void on_train_end(RunState& run) override {
    if (!keep_at_end_ || run.interrupted || run.best_restored) return;
    swap_();
    if (averages_ != nullptr && *averages_) {
      (*averages_)->keep();
      averages_->reset();
    }
  }
  std::string_view kind() const override { return "swap_weights"; }

 private:
  std::shared_ptr<std::optional<optim::AveragedWeights>> averages_ = {};  // while they are exchanged
  std::function<void()> swap_;
  bool keep_at_end_;
};

struct CsvLoggerOptions {
  char separator = ',';
  bool append = false;  // to the existing file, whose header must be the same
};
/// Writes one row per epoch: the epoch, then the run's results; a result that an epoch lacks is empty. A
/// resumed run continues from its checkpoint: rows written after it are removed.
class CsvLogger : public Callback {
 public:
  explicit CsvLogger(std::filesystem::path filename, CsvLoggerOptions options = {})
      : filename_(std::move(filename)), options_(options) {}
  bool first_rank_only() const override { return true; }
  /// Throws kIo, kInvalidArgument for another header.
  void on_train_begin(RunState& run) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  void on_train_end(RunState& run) override;
  /// The file's length.
  std::string state() const override;
  /// Throws kInvalidArgument for another header.
  void restore(const RunState& run, const std::string& state) override;
  std::string_view kind() const override { return "csv_logger"; }

 private:
  void open();
  void check_header();
  void write(const std::string& line);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path filename_;
  CsvLoggerOptions options_;
  std::vector<std::string> names_;
  std::string header_;
  // Nothing is written or cut before the first row: a resume may follow, or fail.
  bool fresh_ = false;
  std::optional<int64_t> resumed_at_;  // where to cut then
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace isochron::train
