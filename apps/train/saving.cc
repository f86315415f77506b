#include "isochron/apps/train/saving.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/train/checkpoints/checkpoint_writer.h"

namespace isochron::apps {
namespace {

constexpr int kKept = 3;

/// Names weights by the epoch, and also by the step if some are saved between epochs.
std::string default_name(const TrainOptions& options) {
  return options.weights_only && options.checkpoint_every == 0 ? "cp-{epoch:04d}"
                                                               : "cp-{epoch:04d}-{total_steps:08d}";
}

}  // namespace

train::ModelCheckpointOptions checkpoint_options(const TrainOptions& options) {
  const std::filesystem::path name =
      options.checkpoint_name.empty() ? default_name(options) : options.checkpoint_name;
  require(!name.empty() && !name.has_parent_path() && name != "." && name != "..",
          ErrorCode::kInvalidArgument, "train",
          "--checkpoint-name must be a file name, without a folder, such as cp-{{epoch:04d}}, got '{}'",
          name.string());
  require(std::filesystem::path(name).replace_extension() != "weights", ErrorCode::kInvalidArgument, "train",
          "--checkpoint-name '{}' is the name of the file for the trained weights; choose another",
          name.string());
  return {.filepath = options.checkpoint / name,
          .save_weights_only = options.weights_only,
          .every_epochs = options.checkpoint_epochs,
          .every_steps = options.checkpoint_every,
          .on_signal = !options.weights_only,  // weights in the middle of an epoch aren't that epoch's
          .keep_last = options.keep_checkpoints.value_or(options.weights_only ? 0 : kKept),
          .resume = options.resume};
}

SavedLines::SavedLines()
    : sink_(add_event_sink([this](const Event& event) {
        if (event.kind != EventKind::kCheckpoint || event.text == train::kWrittenAgain) return;
        const std::lock_guard lock(mutex_);
        ++saved_;
        last_ = event.name;
      })) {}

SavedLines::~SavedLines() { remove_event_sink(sink_); }

void SavedLines::print() {
  int saved = 0;
  std::string last;
  {
    const std::lock_guard lock(mutex_);
    saved = std::exchange(saved_, 0);
    last = std::move(last_);
  }
  if (saved == 1) fmt::print("saved {}\n", last);
  if (saved > 1) fmt::print("saved {} checkpoints, last {}\n", saved, last);
  if (saved > 0) std::fflush(stdout);
}

}  // namespace isochron::apps
