// What `isochron train --checkpoint` saves, depending on its options, and the line that reports it.
#pragma once

#include <mutex>
#include <string>

#include "isochron/apps/train/options.h"
#include "isochron/train/callbacks/callback.h"
#include "isochron/train/callbacks/model_checkpoint.h"

namespace isochron::apps {

/// The name of the trained weights in the folder of `--checkpoint`.
inline constexpr const char* kWeightsName = "weights.safetensors";

/// Throws kInvalidArgument if the name isn't that of a file directly in the folder, or is that of the weights
/// file.
train::ModelCheckpointOptions checkpoint_options(const TrainOptions& options);

/// Before each epoch and at the end, prints which checkpoints were written since the last time.
class SavedLines : public train::Callback {
 public:
  SavedLines();
  ~SavedLines() override;
  SavedLines(const SavedLines&) = delete;
  SavedLines& operator=(const SavedLines&) = delete;

  bool first_rank_only() const override { return true; }
  void on_epoch_begin(train::RunState&) override { print(); }
  std::string_view kind() const override { return "saved_lines"; }
  void print();

 private:
  std::mutex mutex_;  // guards the next two members: a separate thread writes files
  int saved_ = 0;
  std::string last_;
  int sink_;
};

}  // namespace isochron::apps
