// TensorBoard: a training's losses and metrics, histograms of its weights, gradients and step times, the
// graph of its step and the memory that it takes, in event files that TensorBoard reads (docs/export.md).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "isochron/memory/cuda/transfer_stats.h"
#include "isochron/observe/record/event_file.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/callbacks/callback.h"

namespace isochron::train {

struct TensorBoardOptions {
  /// Writes results also every so many steps, at the next on_batch_end, as "batch_..."; 0: only at the end of
  /// epochs.
  int64_t update_freq = 0;
  /// The optimizer whose learning rate is also written, as are histograms of its gradients if it keeps them
  /// (StepOptions::keep_gradients). Must outlive the callback.
  const optim::Optimizer* optimizer = nullptr;
  /// The number of epochs between histograms of the step's times and, if the trainer knows them
  /// (BatchFunctions::weights), of the weights. 0: no histograms.
  int histogram_freq = 0;
  /// Writes, once, the graph of the train step as planned, and how many bytes of its arena are live at each
  /// kernel.
  bool write_graph = true;
  /// Writes memory in use, reserved and resident, and by tag, at the end of epochs.
  bool write_memory = true;
  /// For a step on a device, at the end of epochs: the average cost per batch of that epoch to transfer the
  /// batches (memory/cuda/transfer_stats.h), as "transfer/...".
  bool write_transfers = true;
};

/// Writes scalars to the same places and under the same names as Keras: LOG_DIR/train and LOG_DIR/validation,
/// "epoch_loss", "batch_loss". All values are plotted over the number of steps done. A resumed run writes new
/// files and tells TensorBoard to discard older values from its first step on. LOG_DIR/step_memory is one
/// step's memory per kernel.
class TensorBoard : public Callback {
 public:
  // Limits of what an epoch writes.
  static constexpr size_t kMaxHistograms = 256;  // of weights, and as many of gradients
  static constexpr size_t kMaxTags = 16;         // of memory, largest first
  static constexpr size_t kMaxMemoryPoints = 4096;

  /// Throws kInvalidArgument for a negative histogram_freq.
  explicit TensorBoard(std::filesystem::path log_dir, TensorBoardOptions options = {});
  bool first_rank_only() const override { return true; }
  void on_train_begin(RunState& run) override;
  void on_batch_end(RunState& run, const Results& results) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  /// Throws kIo if the files can't be written.
  void on_train_end(RunState& run) override;
  /// The step from which on "batch_..." is due.
  std::string state() const override;
  void restore(const RunState& run, const std::string& state) override;
  std::string_view kind() const override { return "tensor_board"; }

 private:
  observe::EventFile& file(std::unique_ptr<observe::EventFile>& slot, const char* folder) const;
  observe::EventFile& train_file(const RunState& run);
  void write_graph(const RunState& run);
  void write_histograms(const RunState& run);
  void write_memory(const RunState& run);
  void write_transfers(const RunState& run);

  std::filesystem::path log_dir_;
  TensorBoardOptions options_;
  std::unique_ptr<observe::EventFile> train_, validation_;  // made when there is something to write
  int64_t next_batch_ = 0;
  std::optional<int64_t> resumed_at_;  // steps done then
  cuda::TransferStats transferred_;    // at the end of the epoch before
};

}  // namespace isochron::train
